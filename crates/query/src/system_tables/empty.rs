//! Tables of `pg_catalog` about features that are not offered: triggers, policies, enums and others. They have
//! PostgreSQL's columns and no rows.

use super::Definition;

const fn empty(name: &'static str, columns: &'static str) -> Definition {
    Definition { name, columns, fill: None }
}

/// The tables.
pub(super) const TABLES: &[Definition] = &[
    empty(
        "pg_conversion",
        "oid bigint, conname text, connamespace bigint, conowner bigint, conforencoding integer, \
            contoencoding integer, conproc bigint, condefault boolean",
    ),
    empty("pg_db_role_setting", "setdatabase bigint, setrole bigint, setconfig text[]"),
    empty(
        "pg_default_acl",
        "oid bigint, defaclrole bigint, defaclnamespace bigint, defaclobjtype text, defaclacl text[]",
    ),
    empty(
        "pg_event_trigger",
        "oid bigint, evtname text, evtevent text, evtowner bigint, evtfoid bigint, evtenabled text, evttags text[]",
    ),
    empty(
        "pg_language",
        "oid bigint, lanname text, lanowner bigint, lanispl boolean, lanpltrusted boolean, lanplcallfoid bigint, \
            laninline bigint, lanvalidator bigint, lanacl text[]",
    ),
    empty(
        "pg_subscription",
        "oid bigint, subdbid bigint, subskiplsn text, subname text, subowner bigint, subenabled boolean, \
            subbinary boolean, substream boolean, subtwophasestate text, subdisableonerr boolean, \
            subconninfo text, subslotname text, subsynccommit text, subpublications text[]",
    ),
    empty("pg_user_mappings", "umid bigint, srvid bigint, srvname text, umuser bigint, usename text, umoptions text[]"),
    empty("pg_auth_members", "roleid bigint, member bigint, grantor bigint, admin_option boolean"),
    empty(
        "pg_depend",
        "classid bigint, objid bigint, objsubid integer, refclassid bigint, refobjid bigint, \
            refobjsubid integer, deptype text",
    ),
    empty("pg_enum", "oid bigint, enumtypid bigint, enumsortorder real, enumlabel text"),
    empty(
        "pg_extension",
        "oid bigint, extname text, extowner bigint, extnamespace bigint, extrelocatable boolean, \
            extversion text, extconfig bigint[], extcondition text[]",
    ),
    empty("pg_inherits", "inhrelid bigint, inhparent bigint, inhseqno integer, inhdetachpending boolean"),
    empty(
        "pg_matviews",
        "schemaname text, matviewname text, matviewowner text, tablespace text, hasindexes boolean, \
            ispopulated boolean, definition text",
    ),
    empty(
        "pg_partitioned_table",
        "partrelid bigint, partstrat text, partnatts smallint, partdefid bigint, partattrs int2vector, \
            partclass oidvector, partcollation oidvector, partexprs text",
    ),
    empty(
        "pg_policy",
        "oid bigint, polname text, polrelid bigint, polcmd text, polpermissive boolean, polroles bigint[], \
            polqual text, polwithcheck text",
    ),
    empty(
        "pg_proc",
        "oid bigint, proname text, pronamespace bigint, proowner bigint, prolang bigint, procost real, \
            prorows real, provariadic bigint, prosupport bigint, prokind text, prosecdef boolean, \
            proleakproof boolean, proisstrict boolean, proretset boolean, provolatile text, proparallel text, \
            pronargs smallint, pronargdefaults smallint, prorettype bigint, proargtypes oidvector, \
            proallargtypes bigint[], proargmodes text[], proargnames text[], proargdefaults text, \
            protrftypes bigint[], prosrc text, probin text, prosqlbody text, proconfig text[], proacl text[]",
    ),
    empty(
        "pg_opclass",
        "oid bigint, opcmethod bigint, opcname text, opcnamespace bigint, opcowner bigint, opcfamily bigint, \
            opcintype bigint, opcdefault boolean, opckeytype bigint",
    ),
    empty("pg_publication_namespace", "oid bigint, pnpubid bigint, pnnspid bigint"),
    empty("pg_publication_rel", "oid bigint, prpubid bigint, prrelid bigint, prqual text, prattrs smallint[]"),
    empty(
        "pg_publication",
        "oid bigint, pubname text, pubowner bigint, puballtables boolean, pubinsert boolean, \
            pubupdate boolean, pubdelete boolean, pubtruncate boolean, pubviaroot boolean",
    ),
    empty(
        "pg_range",
        "rngtypid bigint, rngsubtype bigint, rngmultitypid bigint, rngcollation bigint, rngsubopc bigint, \
            rngcanonical bigint, rngsubdiff bigint",
    ),
    empty(
        "pg_rewrite",
        "oid bigint, rulename text, ev_class bigint, ev_type text, ev_enabled text, is_instead boolean, \
            ev_qual text, ev_action text",
    ),
    empty(
        "pg_statistic_ext",
        "oid bigint, stxrelid bigint, stxname text, stxnamespace bigint, stxowner bigint, \
            stxstattarget integer, stxkeys smallint[], stxkind text[], stxexprs text",
    ),
    empty(
        "pg_trigger",
        "oid bigint, tgrelid bigint, tgparentid bigint, tgname text, tgfoid bigint, tgtype smallint, \
            tgenabled text, tgisinternal boolean, tgconstrrelid bigint, tgconstrindid bigint, \
            tgconstraint bigint, tgdeferrable boolean, tginitdeferred boolean, tgnargs smallint, \
            tgattr smallint[], tgargs bytea, tgqual text, tgoldtable text, tgnewtable text",
    ),
    empty(
        "pg_amop",
        "oid bigint, amopfamily bigint, amoplefttype bigint, amoprighttype bigint, amopstrategy smallint, \
            amoppurpose text, amopopr bigint, amopmethod bigint, amopsortfamily bigint",
    ),
    empty(
        "pg_amproc",
        "oid bigint, amprocfamily bigint, amproclefttype bigint, amprocrighttype bigint, amprocnum smallint, \
            amproc bigint",
    ),
    empty(
        "pg_cast",
        "oid bigint, castsource bigint, casttarget bigint, castfunc bigint, castcontext text, castmethod text",
    ),
    empty("pg_largeobject_metadata", "oid bigint, lomowner bigint, lomacl text[]"),
    empty(
        "pg_operator",
        "oid bigint, oprname text, oprnamespace bigint, oprowner bigint, oprkind text, oprcanmerge boolean, \
            oprcanhash boolean, oprleft bigint, oprright bigint, oprresult bigint, oprcom bigint, \
            oprnegate bigint, oprcode bigint, oprrest bigint, oprjoin bigint",
    ),
    empty("pg_opfamily", "oid bigint, opfmethod bigint, opfname text, opfnamespace bigint, opfowner bigint"),
    empty("pg_ts_config", "oid bigint, cfgname text, cfgnamespace bigint, cfgowner bigint, cfgparser bigint"),
    empty(
        "pg_ts_dict",
        "oid bigint, dictname text, dictnamespace bigint, dictowner bigint, dicttemplate bigint, \
            dictinitoption text",
    ),
    empty(
        "pg_ts_parser",
        "oid bigint, prsname text, prsnamespace bigint, prsstart bigint, prstoken bigint, prsend bigint, \
            prsheadline bigint, prslextype bigint",
    ),
    empty("pg_ts_template", "oid bigint, tmplname text, tmplnamespace bigint, tmplinit bigint, tmpllexize bigint"),
    empty("pg_views", "schemaname text, viewname text, viewowner text, definition text"),
];
