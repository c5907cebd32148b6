-- What shardid's users of MySQL or MariaDB may do. Replace the passwords, the schema shardid, and % by shardid's hosts.
-- TestGrants runs shardid with exactly these, so each section is enough and needed.

-- [migrate] shardid migrate, the only command that changes the schema.
CREATE USER 'shardid_migrate'@'%' IDENTIFIED BY 'change-me';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP, CREATE ROUTINE, ALTER ROUTINE, EXECUTE ON shardid.* TO 'shardid_migrate'@'%';

-- [service] The service, in every mode, after the first `shardid migrate`. After a failover any replica updates the tables of all
-- modes. The queue and segment modes, sequences and leases need no more.
CREATE USER 'shardid'@'%' IDENTIFIED BY 'change-me';
GRANT SELECT, UPDATE ON shardid.shardid_deployment TO 'shardid'@'%';
GRANT SELECT, INSERT, DELETE ON shardid.shardid_replica TO 'shardid'@'%';
GRANT SELECT, INSERT, UPDATE ON shardid.shardid_change TO 'shardid'@'%';
GRANT SELECT, UPDATE ON shardid.shardid_lock TO 'shardid'@'%';
GRANT SELECT, UPDATE ON shardid.leaf_alloc TO 'shardid'@'%';
GRANT SELECT, INSERT, UPDATE ON shardid.leaf_alloc_deleted TO 'shardid'@'%';
GRANT SELECT ON shardid.WORKER_NODE TO 'shardid'@'%';
GRANT SELECT, UPDATE ON shardid.id_alloc TO 'shardid'@'%';
GRANT SELECT, INSERT, UPDATE ON shardid.id_alloc_deleted TO 'shardid'@'%';
GRANT SELECT ON shardid.shardid_scramble TO 'shardid'@'%';
GRANT SELECT ON shardid.shardid_number TO 'shardid'@'%';
GRANT SELECT, UPDATE ON shardid.shardid_name TO 'shardid'@'%';
GRANT SELECT, INSERT, UPDATE ON shardid.shardid_lease TO 'shardid'@'%';
GRANT SELECT, INSERT ON shardid.id_layout TO 'shardid'@'%';
GRANT SELECT ON shardid.shardid_sequence TO 'shardid'@'%';
GRANT SELECT, UPDATE ON shardid.shardid_section TO 'shardid'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON shardid.shardid_fence TO 'shardid'@'%';
GRANT SELECT, INSERT, UPDATE ON shardid.shardid_sequence_deleted TO 'shardid'@'%';

-- [snowflake] Snowflake, in addition. Without snowflake.worker.mode mysql the first line is enough.
GRANT SELECT, INSERT, UPDATE, DELETE ON shardid.shardid_worker_claim TO 'shardid'@'%';
GRANT SELECT, INSERT, UPDATE ON shardid.leaf_workerid_alloc TO 'shardid'@'%';

-- [uid] The UID mode, in addition.
GRANT SELECT, INSERT, UPDATE, DELETE ON shardid.WORKER_NODE TO 'shardid'@'%';

-- [administration] Administration, by /admin or by apps, tags, names, spaces, provision, workers and confirm, in addition.
GRANT INSERT, DELETE ON shardid.id_alloc TO 'shardid'@'%';
GRANT INSERT ON shardid.shardid_scramble TO 'shardid'@'%';
GRANT INSERT, UPDATE ON shardid.shardid_number TO 'shardid'@'%';
GRANT INSERT ON shardid.shardid_name TO 'shardid'@'%';
GRANT INSERT, UPDATE, DELETE ON shardid.shardid_sequence TO 'shardid'@'%';
GRANT INSERT, DELETE ON shardid.shardid_section TO 'shardid'@'%';
GRANT DELETE ON shardid.id_alloc_deleted TO 'shardid'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON shardid.leaf_alloc TO 'shardid'@'%';
GRANT DELETE ON shardid.leaf_alloc_deleted TO 'shardid'@'%';
GRANT SELECT, UPDATE ON shardid.leaf_workerid_alloc TO 'shardid'@'%';
GRANT SELECT, UPDATE ON shardid.shardid_worker_claim TO 'shardid'@'%';

-- [doctor] shardid doctor, to see the replicas of a MySQL.
GRANT REPLICATION SLAVE ON *.* TO 'shardid'@'%';
