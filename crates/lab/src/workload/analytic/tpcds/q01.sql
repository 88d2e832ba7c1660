with returned as (
    select sr_customer_sk as customer, sr_store_sk as store, sum(sr_return_amt) as total
    from store_returns, date_dim
    where sr_returned_date_sk = d_date_sk and d_year = 2000
    group by sr_customer_sk, sr_store_sk
)
select c_customer_id
from returned r, store, customer
where r.total > (select avg(o.total) * 1.2 from returned o where o.store = r.store)
    and s_store_sk = r.store and s_state = 'TN' and c_customer_sk = r.customer
order by 1
limit 100
