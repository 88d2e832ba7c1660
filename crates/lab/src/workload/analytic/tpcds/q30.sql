with returned as (
    select wr_returning_customer_sk as customer, ca_state as state, sum(wr_return_amt) as total
    from web_returns, date_dim, customer_address
    where wr_returned_date_sk = d_date_sk and d_year = 2002 and wr_returning_addr_sk = ca_address_sk
    group by wr_returning_customer_sk, ca_state
)
select c_customer_id, c_salutation, c_first_name, c_last_name, c_preferred_cust_flag, c_birth_day, c_birth_month,
    c_birth_year, c_birth_country, c_login, c_email_address, c_last_review_date_sk, r.total
from returned r, customer_address, customer
where r.total > (select avg(o.total) * 1.2 from returned o where r.state = o.state)
    and ca_address_sk = c_current_addr_sk and ca_state = 'GA' and r.customer = c_customer_sk
order by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
limit 100
