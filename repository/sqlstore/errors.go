package sqlstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	gosql "github.com/go-sql-driver/mysql"
	gosqlite "modernc.org/sqlite"

	"shardid/model"
)

var (
	// errReadOnly: the server answers but is no primary.
	errReadOnly = errors.New("the server is read-only")
	// errOutside: the server takes writes that its group does not have.
	errOutside = fmt.Errorf("%w: the server is outside its group", model.Do("have the server join its group (START "+
		"GROUP_REPLICATION), or, if the group was given up for good, remove the plugin of group replication"))
)

const (
	adviceMigrate  = "run `shardid migrate`"
	adviceReadOnly = "point database.dsn at the primary, or make this server writable (SET GLOBAL read_only = OFF) " +
		"if it is the primary"
	adviceGrant = "grant the user of database.dsn SELECT, INSERT, UPDATE, DELETE and, for `shardid migrate`, CREATE, " +
		"ALTER, INDEX, DROP, CREATE ROUTINE, ALTER ROUTINE, EXECUTE on the database"
	adviceBinlog = "SET GLOBAL binlog_format = ROW, and in the server's file, as the server refuses transactions " +
		"that are READ COMMITTED with a log of statements"
)

// LacksSchema says whether err tells of a table or column that migrations of this version
// make. It is for servers; a file is migrated at each start.
func LacksSchema(err error) bool { return serverSaid(err, 1146, 1054) }

// explain wraps err, which may be nil, with the operation and what to do about it.
func (s *Store) explain(op string, err error) error {
	var known *model.StoreError
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &model.StoreError{Store: "database", Op: op, Advice: s.advice(err), Err: err}
}

// advice is what an operator should do about the errors that happen, the remedy first. Others are told in
// the words of the server, its driver or the system.
func (s *Store) advice(err error) string {
	at, key := s.address(), s.addressKey()
	verify, _ := errors.AsType[*tls.CertificateVerificationError](err)
	dial, _ := errors.AsType[*net.OpError](err)
	switch {
	case LacksSchema(err), sqliteSaid(err, 1): // ERROR: what the tables lack, mostly
		return adviceMigrate
	case errors.Is(err, errNoLockRow):
		return adviceMigrate + ", or, if a row is missing, INSERT INTO " + mutexTable + " (name) VALUES ('" +
			workerTable + "'), ('" + claimTable + "'), ('" + nodeTable + "'), INSERT INTO " + deploymentTable +
			" (deployment) VALUES (a new random name)"
	case serverSaid(err, 1045, 1698):
		return "correct user and password in database.dsn"
	case serverSaid(err, 1044): // for a name that is wrong, too, unless the user may see all
		return "correct the name of the database in database.dsn, or " + adviceGrant
	case serverSaid(err, 1142, 1143, 1227, 1370, 1410):
		return adviceGrant
	case serverSaid(err, 1665):
		return adviceBinlog
	case serverSaid(err, 1049):
		return "create the database (CREATE DATABASE … CHARACTER SET utf8mb4), or correct its name in database.dsn"
	case serverSaid(err, 1290, 1792, 1836, 1874), errors.Is(err, errReadOnly):
		return adviceReadOnly
	case serverSaid(err, 3, 1021, 1114), sqliteSaid(err, 13): // FULL
		return "free space on the disk of " + at
	case sqliteSaid(err, 3, 8, 14), // PERM, READONLY, CANTOPEN
		errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return "let the user of this process read and write " + at + " and its folder, or set another data_dir"
	case sqliteSaid(err, 11, 26): // CORRUPT, NOTADB
		return "restore " + at + ", which is not a usable SQLite database, or set database.dsn to another path"
	case errors.Is(err, errWitnessAway):
		return "start Redis, and let redis.url name the same Redis in the configuration of every replica"
	case verify != nil:
		return "trust the authority of the server's certificate (database.tls_ca_file), and ask for a name that is " +
			"in it"
	case isOtherServer(err):
		return "correct " + key + ", as no MySQL or MariaDB listens at " + at
	case dial != nil && dial.Op == "dial":
		return "start the database server at " + at + ", or correct " + key
	case isBroken(err):
		return "wait, as a connection that broke is opened again; if it persists, see whether a MySQL or MariaDB " +
			"server listens at " + at + " (" + key + "), and look at its log"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "look whether the database is busy, or the network to it"
	}
	return ""
}

func (s *Store) address() string {
	if s.server == nil {
		return s.file
	}
	return cmp.Or(strings.Join(s.opts.Hosts, ", "), s.server.Addr)
}

// Place names the database for people, without a password.
func (s *Store) Place() string {
	if s.server == nil {
		return EmbeddedPlace(s.opts.DSN)
	}
	return fmt.Sprintf("database %s at %s", s.server.DBName, s.address())
}

// EmbeddedPlace is Place for a SQLite file.
func EmbeddedPlace(file string) string { return "embedded database " + file }

// addressKey is the key of the configuration that says where the server is.
func (s *Store) addressKey() string {
	if len(s.opts.Hosts) > 0 {
		return "database.hosts"
	}
	return "database.dsn"
}

// isBroken says whether the connection is gone, or its session: idle for too long, or
// killed.
func isBroken(err error) bool {
	return serverSaid(err, 4031, 1927) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, gosql.ErrInvalidConn)
}

// isOtherServer says whether what answered is another kind of server, by its greeting.
func isOtherServer(err error) bool {
	return errors.Is(err, errUnreadable) || errors.Is(err, gosql.ErrPktSync) || errors.Is(err, gosql.ErrMalformPkt) ||
		errors.Is(err, gosql.ErrOldProtocol) ||
		err != nil && strings.Contains(err.Error(), "unsupported protocol version")
}

// fail is explain for a write. The driver reports a server that turned read-only
// as a broken connection, so that the pool lets go of it; then the server is
// asked for the reason.
func (s *Store) fail(ctx context.Context, op string, err error) error {
	if errors.Is(err, driver.ErrBadConn) && s.server != nil {
		if readOnly := s.checkPrimary(ctx); errors.Is(readOnly, errReadOnly) {
			err = readOnly
		}
	}
	return s.explain(op, err)
}

// answer tells a refusal, which a healthy database gives, from a failure of the
// database: that one becomes a *model.StoreError.
func (s *Store) answer(ctx context.Context, op string, err error) error {
	if isRefusal(err) {
		return err
	}
	return s.fail(ctx, op, err)
}

// isRefusal says whether err is one that a healthy database gives.
func isRefusal(err error) bool {
	return slices.ContainsFunc([]error{
		model.ErrUnknownApp, model.ErrUnknownTag, model.ErrUnknownName, model.ErrUnknownSpace, model.ErrExists,
		model.ErrLimitReached, model.ErrInvalidArgument,
		model.ErrNoWorkerID, model.ErrRegistryInUse, model.ErrLeaseLost, model.ErrLayoutChanged,
		model.ErrRefused, model.ErrUnconfirmed, model.ErrJumping, model.ErrRate,
	}, func(refusal error) bool { return errors.Is(err, refusal) })
}

// isRolledBack says whether the server gave the transaction up for the sake of
// another: deadlock, lock wait, a row that changed before its lock was had.
func isRolledBack(err error) bool { return serverSaid(err, 1213, 1205, 1020) }

// isLocked says whether a lock was not to be had: MySQL's word for one that is not waited for, and MariaDB's for both.
func isLocked(err error) bool { return serverSaid(err, 3572, 1205) }

// isDuplicate says whether a row with this primary key exists.
func isDuplicate(err error) bool {
	var file *gosqlite.Error
	const sqlitePrimaryKey = 1555 // SQLITE_CONSTRAINT_PRIMARYKEY
	return serverSaid(err, 1062) || errors.As(err, &file) && file.Code() == sqlitePrimaryKey
}

// serverSaid says whether the error is MySQL's or MariaDB's of one of the numbers.
func serverSaid(err error, numbers ...uint16) bool {
	var server *gosql.MySQLError
	return errors.As(err, &server) && slices.Contains(numbers, server.Number)
}

// sqliteSaid says whether the error is SQLite's of one of the primary result codes.
func sqliteSaid(err error, codes ...int) bool {
	var file *gosqlite.Error
	return errors.As(err, &file) && slices.Contains(codes, file.Code()&0xff)
}

// isOn reads a server variable; MariaDB 12 has more than one way of on.
func isOn(value string) bool {
	return value != "0" && !strings.EqualFold(value, "OFF")
}
