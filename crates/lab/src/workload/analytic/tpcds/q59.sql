with wss as (
    select d_week_seq, ss_store_sk,
        sum(case when d_day_name = 'Sunday' then ss_sales_price end) as sun,
        sum(case when d_day_name = 'Monday' then ss_sales_price end) as mon,
        sum(case when d_day_name = 'Tuesday' then ss_sales_price end) as tue,
        sum(case when d_day_name = 'Wednesday' then ss_sales_price end) as wed,
        sum(case when d_day_name = 'Thursday' then ss_sales_price end) as thu,
        sum(case when d_day_name = 'Friday' then ss_sales_price end) as fri,
        sum(case when d_day_name = 'Saturday' then ss_sales_price end) as sat
    from store_sales, date_dim
    where d_date_sk = ss_sold_date_sk
    group by d_week_seq, ss_store_sk
)
select y.s_store_name, y.s_store_id, y.d_week_seq, y.sun / nullif(x.sun, 0) as sun, y.mon / nullif(x.mon, 0) as mon, y.tue / nullif(x.tue, 0) as tue,
    y.wed / nullif(x.wed, 0) as wed, y.thu / nullif(x.thu, 0) as thu, y.fri / nullif(x.fri, 0) as fri, y.sat / nullif(x.sat, 0) as sat
from (
    select s_store_name, wss.d_week_seq, s_store_id, sun, mon, tue, wed, thu, fri, sat
    from wss, store, date_dim d
    where d.d_week_seq = wss.d_week_seq and ss_store_sk = s_store_sk and d_month_seq between 1212 and 1223
) as y, (
    select s_store_name, wss.d_week_seq, s_store_id, sun, mon, tue, wed, thu, fri, sat
    from wss, store, date_dim d
    where d.d_week_seq = wss.d_week_seq and ss_store_sk = s_store_sk and d_month_seq between 1224 and 1235
) as x
where y.s_store_id = x.s_store_id and y.d_week_seq = x.d_week_seq - 52
order by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
limit 100
