with returned as (
    select cr_returning_customer_sk as customer, ca_state as state, sum(cr_return_amt_inc_tax) as total
    from catalog_returns, date_dim, customer_address
    where cr_returned_date_sk = d_date_sk and d_year = 2000 and cr_returning_addr_sk = ca_address_sk
    group by cr_returning_customer_sk, ca_state
)
select c_customer_id, c_salutation, c_first_name, c_last_name, ca_street_number, ca_street_name, ca_street_type,
    ca_suite_number, ca_city, ca_county, ca_state, ca_zip, ca_country, ca_gmt_offset, ca_location_type, r.total
from returned r, customer_address, customer
where r.total > (select avg(o.total) * 1.2 from returned o where r.state = o.state)
    and ca_address_sk = c_current_addr_sk and ca_state = 'GA' and r.customer = c_customer_sk
order by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
limit 100
