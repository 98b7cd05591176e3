SET statement_timeout = 0;
SET lock_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
-- sluice: set_config: rewritten to SET, and answered with the row (DSQL refuses set_config())
SET search_path TO '';
SET default_tablespace = '';

--
-- Name: pgcrypto; Type: EXTENSION; Schema: -; Owner: -
--

-- sluice: extension: answered as done - a NOTICE names which of its functions there are - SELECT 1 stands in its place (DSQL has no extensions)
SELECT 1;


--
-- Name: widgets; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.widgets (
    id bigint NOT NULL,
    name character varying,
    created_at timestamp(6) without time zone NOT NULL
);


--
-- Name: widgets_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.widgets_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.widgets_id_seq OWNED BY public.widgets.id;

-- sluice: alter_add_primary_key: DSQL makes a primary key in CREATE TABLE only. To do: name the key in CREATE TABLE - for a table that is there, create it anew with the key, INSERT ... SELECT at most 3,000 rows at a time, DROP TABLE and RENAME. UNIQUE can be added instead
ALTER TABLE ONLY public.widgets
    ADD CONSTRAINT widgets_pkey PRIMARY KEY (id);

-- sluice: create_index: rewritten to CREATE INDEX ASYNC, and nobody waits for its job, as Sluice does for that of CREATE INDEX (DSQL builds indexes only by CREATE INDEX ASYNC)
CREATE INDEX ASYNC index_widgets_on_name ON public.widgets (name);

SET search_path TO "$user", public;

INSERT INTO "schema_migrations" (version) VALUES
('20240101000000');

