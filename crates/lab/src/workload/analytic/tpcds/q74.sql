with year_total as (
    select c_customer_id as customer_id, c_first_name as first_name, c_last_name as last_name, d_year as year,
        sum(ss_net_paid) as total, 's' as sale_type
    from customer, store_sales, date_dim
    where c_customer_sk = ss_customer_sk and ss_sold_date_sk = d_date_sk and d_year in (2001, 2002)
    group by c_customer_id, c_first_name, c_last_name, d_year
    union all
    select c_customer_id, c_first_name, c_last_name, d_year, sum(ws_net_paid), 'w'
    from customer, web_sales, date_dim
    where c_customer_sk = ws_bill_customer_sk and ws_sold_date_sk = d_date_sk and d_year in (2001, 2002)
    group by c_customer_id, c_first_name, c_last_name, d_year
)
select s2.customer_id, s2.first_name, s2.last_name
from year_total s1, year_total s2, year_total w1, year_total w2
where s2.customer_id = s1.customer_id and s1.customer_id = w2.customer_id and s1.customer_id = w1.customer_id
    and s1.sale_type = 's' and w1.sale_type = 'w' and s2.sale_type = 's' and w2.sale_type = 'w'
    and s1.year = 2001 and s2.year = 2002 and w1.year = 2001 and w2.year = 2002 and s1.total > 0 and w1.total > 0
    and case when w1.total > 0 then w2.total / w1.total end > case when s1.total > 0 then s2.total / s1.total end
order by 1, 3, 2
limit 100
