CREATE DATABASE shop;
CREATE USER 'shop'@'%' IDENTIFIED BY 'secret';
GRANT ALL ON shop.* TO 'shop'@'%';

CREATE DATABASE shardid;
CREATE USER 'shardid'@'%' IDENTIFIED BY 'secret';
GRANT ALL ON shardid.* TO 'shardid'@'%';
GRANT REPLICATION SLAVE ON *.* TO 'shardid'@'%';
