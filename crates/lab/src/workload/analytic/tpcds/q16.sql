select count(distinct cs_order_number) as order_count, sum(cs_ext_ship_cost) as shipping, sum(cs_net_profit) as profit
from catalog_sales c1, date_dim, customer_address, call_center
where d_date between date '2002-02-01' and date '2002-04-02' and c1.cs_ship_date_sk = d_date_sk
    and c1.cs_ship_addr_sk = ca_address_sk and ca_state = 'GA' and c1.cs_call_center_sk = cc_call_center_sk
    and cc_county = 'Williamson County'
    and exists (
        select * from catalog_sales c2
        where c1.cs_order_number = c2.cs_order_number and c1.cs_warehouse_sk <> c2.cs_warehouse_sk
    )
    and not exists (select * from catalog_returns where c1.cs_order_number = cr_order_number)
order by 1
limit 100
