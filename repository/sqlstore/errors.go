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
	errOutside = errors.New("the server is outside its group")
)

const (
	adviceMigrate  = "run `shardid migrate`"
	adviceReadOnly = "point database.dsn at the primary, or make this server writable (SET GLOBAL read_only = OFF) if it is the primary"
)

// mysqlAdvice is by the server's error number, MySQL's and MariaDB's.
func mysqlAdvice(number uint16) string {
	switch number {
	case 1045, 1698:
		return "check user and password in database.dsn"
	case 1044, 1142, 1143, 1227, 1370, 1410:
		return "grant the user of database.dsn SELECT, INSERT, UPDATE, DELETE and, for `shardid migrate`, CREATE, ALTER, INDEX, DROP, CREATE ROUTINE, ALTER ROUTINE, EXECUTE on the database"
	case 1049:
		return "create the database (CREATE DATABASE … CHARACTER SET utf8mb4) or correct its name in database.dsn"
	case 1146, 1054:
		return adviceMigrate
	case 1290, 1792, 1836, 1874:
		return adviceReadOnly
	case 1040, 1203, 1226:
		return "lower database.max_open_conns or raise the server's max_connections"
	case 1205, 1213, 1020:
		return "another transaction holds the rows; it is tried again, look for long transactions if it goes on"
	case 3, 1021, 1114:
		return "the database server's disk is full: free space there"
	case 1129, 1130:
		return "the server refuses this host: allow it for the user of database.dsn (FLUSH HOSTS after too many failed attempts)"
	case 1047, 1053:
		return "the server is starting, stopping or outside its cluster: wait, or look at its log"
	case 3819, 4025:
		return "the value is outside what the table allows"
	}
	return ""
}

// LacksSchema says whether err tells of a table or column that migrations of this version
// make. It is for servers; a file is migrated at each start.
func LacksSchema(err error) bool {
	var server *gosql.MySQLError
	return errors.As(err, &server) && mysqlAdvice(server.Number) == adviceMigrate
}

// sqliteAdvice is by SQLite's primary result code.
func sqliteAdvice(code int, file string) string {
	switch code & 0xff {
	case 1: // ERROR: what the tables lack, mostly
		return adviceMigrate + " if a table or column is missing"
	case 3, 14: // PERM, CANTOPEN
		return "let the user of this process read and write " + file + " and its folder, or set another data_dir"
	case 5, 6: // BUSY, LOCKED
		return "another process holds " + file + ": stop it, or use a MySQL server for several processes"
	case 8: // READONLY
		return file + " or its folder is read-only: make both writable for this process"
	case 10: // IOERR
		return "the disk of " + file + " fails: look at the system's log"
	case 11, 26: // CORRUPT, NOTADB
		return file + " is not a usable SQLite database: restore it, or set database.dsn to another path"
	case 13: // FULL
		return "the disk of " + file + " is full: free space there"
	}
	return ""
}

// explain wraps err, which may be nil, with the operation and what to do about it.
func (s *Store) explain(op string, err error) error {
	var known *model.StoreError
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &model.StoreError{Store: "database", Op: op, Advice: s.advice(err), Err: err}
}

func (s *Store) advice(err error) string {
	var (
		server *gosql.MySQLError
		file   *gosqlite.Error
		dial   *net.OpError
		name   *net.DNSError
		verify *tls.CertificateVerificationError
		alert  tls.AlertError
	)
	switch {
	case isOtherServer(err):
		return fmt.Sprintf("correct %s: what listens at %s does not speak as MySQL or MariaDB do; it is asked again by itself",
			s.addressKey(), s.address())
	case errors.As(err, &server):
		return mysqlAdvice(server.Number)
	case errors.As(err, &file):
		return sqliteAdvice(file.Code(), s.file)
	case errors.Is(err, errDeployments):
		return "let database.hosts name the servers of one deployment only: a primary and what follows it"
	case errors.Is(err, errOutside):
		return "have it join the group (START GROUP_REPLICATION); if the group was given up for good, restart shardid"
	case errors.Is(err, errReadOnly):
		return adviceReadOnly
	case errors.Is(err, errServerChanged), errors.Is(err, errMarkAhead):
		return "it is looked at again at once"
	case errors.Is(err, errWitnessAway):
		return "it goes on within seconds: start Redis, and let redis.* name the same Redis in the configuration of every replica"
	case errors.Is(err, model.ErrClockApart):
		return "set the clocks of this machine and of the database server (NTP)"
	case errors.Is(err, errNoLockRow):
		return adviceMigrate + ", or, if a row is missing, INSERT INTO " + mutexTable + " (name) VALUES ('" + workerTable + "'), ('" + claimTable + "'), ('" + nodeTable + "'), INSERT INTO " + deploymentTable + " (deployment) VALUES (a new random name)"
	case errors.Is(err, errRowChanged):
		return "something writes to the table without locking its rows, or its engine is not InnoDB: " + adviceMigrate
	case errors.As(err, &verify), errors.As(err, &alert):
		return "TLS failed: trust the authority of the server's certificate (database.tls_ca_file) and ask for the name that is in it (database.tls_server_name)"
	case errors.Is(err, gosql.ErrNoTLS):
		return "the server speaks no TLS: give it a certificate (ssl_cert, ssl_key), or set database.tls to false"
	case errors.As(err, &name):
		return fmt.Sprintf("the host %q is not known: correct %s or the name service", name.Name, s.addressKey())
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Sprintf("no database server answers at %s: start it, or correct %s", s.address(), s.addressKey())
	case isBroken(err):
		return fmt.Sprintf("the connection to %s broke; it is opened again. If it goes on, see whether a MySQL or MariaDB server listens there (%s), and look at its log", s.address(), s.addressKey())
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return "let the user of this process write there, or set data_dir to a folder that it may write"
	case errors.Is(err, syscall.ENOTDIR):
		return "that is a file: set data_dir to a folder"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "the database did not answer in time"
	}
	return ""
}

func (s *Store) address() string {
	if s.server == nil {
		return s.file
	}
	return cmp.Or(strings.Join(s.opts.Hosts, ", "), s.server.Addr)
}

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
		errors.Is(err, gosql.ErrOldProtocol) || err != nil && strings.Contains(err.Error(), "unsupported protocol version")
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
		return fmt.Errorf("%s: %w", op, err)
	}
	return s.fail(ctx, op, err)
}

// isRefusal says whether err is one that a healthy database gives.
func isRefusal(err error) bool {
	return slices.ContainsFunc([]error{
		model.ErrUnknownTag, model.ErrTagExists, model.ErrLimitReached, model.ErrInvalidArgument,
		model.ErrNoWorkerID, model.ErrRegistryInUse, model.ErrLeaseLost, model.ErrLayoutChanged,
		model.ErrUnknownApp, model.ErrAppExists, model.ErrUnknownName, model.ErrNameExists, model.ErrUnknownSpace, model.ErrSpaceExists,
		model.ErrRefused, model.ErrUnconfirmed, model.ErrJumping, model.ErrRate,
	}, func(refusal error) bool { return errors.Is(err, refusal) })
}

// isRolledBack says whether the server gave the transaction up for the sake of
// another: deadlock, lock wait, a row that changed before its lock was had.
func isRolledBack(err error) bool { return serverSaid(err, 1213, 1205, 1020) }

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

// isBusy says whether another process holds the SQLite file.
func isBusy(err error) bool {
	var file *gosqlite.Error
	return errors.As(err, &file) && (file.Code()&0xff == 5 || file.Code()&0xff == 6)
}

// isOn reads a server variable; MariaDB 12 has more than one way of on.
func isOn(value string) bool {
	return value != "0" && !strings.EqualFold(value, "OFF")
}
