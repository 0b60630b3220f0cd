-- Run by the image of compose.yaml's server, once its database is there. agent/SQL-v0 uses a server only if the
-- roles that it gives to models can connect to no database but their own; PostgreSQL lets everybody in to these.
REVOKE CONNECT ON DATABASE agent, postgres, template1 FROM PUBLIC;
