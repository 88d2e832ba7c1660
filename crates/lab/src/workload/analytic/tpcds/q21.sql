select *
from (
    select w_warehouse_name, i_item_id,
        sum(case when d_date < date '2000-03-11' then inv_quantity_on_hand else 0 end) as inv_before,
        sum(case when d_date >= date '2000-03-11' then inv_quantity_on_hand else 0 end) as inv_after
    from inventory, warehouse, item, date_dim
    where i_current_price between 0.99 and 1.49 and i_item_sk = inv_item_sk and inv_warehouse_sk = w_warehouse_sk
        and inv_date_sk = d_date_sk and d_date between date '2000-02-10' and date '2000-04-10'
    group by w_warehouse_name, i_item_id
) as x
where case when inv_before > 0 then cast(inv_after as double precision) / inv_before end between 2.0 / 3.0 and 3.0 / 2.0
order by 1, 2
limit 100
