select *
from (
    select avg(ss_list_price) as b1_lp, count(ss_list_price) as b1_cnt, count(distinct ss_list_price) as b1_cntd
    from store_sales
    where ss_quantity between 0 and 5
        and (ss_list_price between 8 and 18 or ss_coupon_amt between 459 and 1459 or ss_wholesale_cost between 57 and 77)
) as b1, (
    select avg(ss_list_price) as b2_lp, count(ss_list_price) as b2_cnt, count(distinct ss_list_price) as b2_cntd
    from store_sales
    where ss_quantity between 6 and 10
        and (ss_list_price between 90 and 100 or ss_coupon_amt between 2323 and 3323 or ss_wholesale_cost between 31 and 51)
) as b2, (
    select avg(ss_list_price) as b3_lp, count(ss_list_price) as b3_cnt, count(distinct ss_list_price) as b3_cntd
    from store_sales
    where ss_quantity between 11 and 15
        and (ss_list_price between 142 and 152 or ss_coupon_amt between 12214 and 13214 or ss_wholesale_cost between 79 and 99)
) as b3, (
    select avg(ss_list_price) as b4_lp, count(ss_list_price) as b4_cnt, count(distinct ss_list_price) as b4_cntd
    from store_sales
    where ss_quantity between 16 and 20
        and (ss_list_price between 135 and 145 or ss_coupon_amt between 6071 and 7071 or ss_wholesale_cost between 38 and 58)
) as b4, (
    select avg(ss_list_price) as b5_lp, count(ss_list_price) as b5_cnt, count(distinct ss_list_price) as b5_cntd
    from store_sales
    where ss_quantity between 21 and 25
        and (ss_list_price between 122 and 132 or ss_coupon_amt between 836 and 1836 or ss_wholesale_cost between 17 and 37)
) as b5, (
    select avg(ss_list_price) as b6_lp, count(ss_list_price) as b6_cnt, count(distinct ss_list_price) as b6_cntd
    from store_sales
    where ss_quantity between 26 and 30
        and (ss_list_price between 154 and 164 or ss_coupon_amt between 7326 and 8326 or ss_wholesale_cost between 7 and 27)
) as b6
limit 100
