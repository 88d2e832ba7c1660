with year_total as (
    select c_customer_id as customer_id, c_first_name as first_name, c_last_name as last_name,
        c_preferred_cust_flag as preferred, d_year as dyear,
        sum((ss_ext_list_price - ss_ext_wholesale_cost - ss_ext_discount_amt + ss_ext_sales_price) / 2) as total,
        's' as sale_type
    from customer, store_sales, date_dim
    where c_customer_sk = ss_customer_sk and ss_sold_date_sk = d_date_sk
    group by c_customer_id, c_first_name, c_last_name, c_preferred_cust_flag, d_year
    union all
    select c_customer_id, c_first_name, c_last_name, c_preferred_cust_flag, d_year,
        sum((cs_ext_list_price - cs_ext_wholesale_cost - cs_ext_discount_amt + cs_ext_sales_price) / 2), 'c'
    from customer, catalog_sales, date_dim
    where c_customer_sk = cs_bill_customer_sk and cs_sold_date_sk = d_date_sk
    group by c_customer_id, c_first_name, c_last_name, c_preferred_cust_flag, d_year
    union all
    select c_customer_id, c_first_name, c_last_name, c_preferred_cust_flag, d_year,
        sum((ws_ext_list_price - ws_ext_wholesale_cost - ws_ext_discount_amt + ws_ext_sales_price) / 2), 'w'
    from customer, web_sales, date_dim
    where c_customer_sk = ws_bill_customer_sk and ws_sold_date_sk = d_date_sk
    group by c_customer_id, c_first_name, c_last_name, c_preferred_cust_flag, d_year
)
select s2.customer_id, s2.first_name, s2.last_name, s2.preferred
from year_total s1, year_total s2, year_total c1, year_total c2, year_total w1, year_total w2
where s2.customer_id = s1.customer_id and s1.customer_id = c2.customer_id and s1.customer_id = c1.customer_id
    and s1.customer_id = w1.customer_id and s1.customer_id = w2.customer_id
    and s1.sale_type = 's' and c1.sale_type = 'c' and w1.sale_type = 'w'
    and s2.sale_type = 's' and c2.sale_type = 'c' and w2.sale_type = 'w'
    and s1.dyear = 2001 and s2.dyear = 2002 and c1.dyear = 2001 and c2.dyear = 2002 and w1.dyear = 2001 and w2.dyear = 2002
    and s1.total > 0 and c1.total > 0 and w1.total > 0
    and case when c1.total > 0 then c2.total / c1.total end > case when s1.total > 0 then s2.total / s1.total end
    and case when c1.total > 0 then c2.total / c1.total end > case when w1.total > 0 then w2.total / w1.total end
order by 1, 2, 3, 4
limit 100
