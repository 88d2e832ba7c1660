with both_sales as (
    select ws_sold_date_sk as sold, ws_ext_sales_price as price from web_sales
    union all
    select cs_sold_date_sk, cs_ext_sales_price from catalog_sales
), weeks as (
    select d_week_seq,
        sum(case when d_day_name = 'Sunday' then price end) as sun,
        sum(case when d_day_name = 'Monday' then price end) as mon,
        sum(case when d_day_name = 'Tuesday' then price end) as tue,
        sum(case when d_day_name = 'Wednesday' then price end) as wed,
        sum(case when d_day_name = 'Thursday' then price end) as thu,
        sum(case when d_day_name = 'Friday' then price end) as fri,
        sum(case when d_day_name = 'Saturday' then price end) as sat
    from both_sales, date_dim
    where d_date_sk = sold
    group by d_week_seq
)
select y.d_week_seq, round(y.sun / nullif(z.sun, 0), 2) as sun, round(y.mon / nullif(z.mon, 0), 2) as mon, round(y.tue / nullif(z.tue, 0), 2) as tue,
    round(y.wed / nullif(z.wed, 0), 2) as wed, round(y.thu / nullif(z.thu, 0), 2) as thu, round(y.fri / nullif(z.fri, 0), 2) as fri,
    round(y.sat / nullif(z.sat, 0), 2) as sat
from weeks y, weeks z,
    (select distinct d_week_seq from date_dim where d_year = 2001) this_year,
    (select distinct d_week_seq from date_dim where d_year = 2002) next_year
where this_year.d_week_seq = y.d_week_seq and next_year.d_week_seq = z.d_week_seq and y.d_week_seq = z.d_week_seq - 53
order by 1
