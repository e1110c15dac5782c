package external

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/lib/pq"
	"modernc.org/sqlite"

	"millrace"
	"millrace/embedded"
	"millrace/internal/testkit"
)

// relayFor is the variable that makes this program a relay which kills itself at a step.
const relayFor = "OUTBOX_RELAY"

func TestMain(m *testing.M) {
	if os.Getenv(relayFor) != "" {
		if err := relay(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	cache, err := os.MkdirTemp("", "mr-dev-")
	if err != nil {
		panic(err)
	}
	os.Setenv("MILLRACE_DEV_DIR", cache)
	code := m.Run()
	os.RemoveAll(cache)
	os.Exit(code)
}

var drivers = map[millrace.Dialect]driver.Driver{
	millrace.PostgreSQL: &pq.Driver{}, millrace.MySQL: &mysql.MySQLDriver{}, millrace.SQLite: &sqlite.Driver{},
}

// relay relays until the outbox is empty, or until this process has killed itself.
func relay() error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	app, err := millrace.Open(ctx)
	if err != nil {
		return err
	}
	defer app.Close()
	last, err := strconv.Atoi(os.Getenv("OUTBOX_STEP"))
	if err != nil {
		return err
	}
	dialect, dsn, steps := millrace.Dialect(os.Getenv(relayFor)), os.Getenv("OUTBOX_DSN"), atomic.Int64{}
	db := crashing(drivers[dialect], dsn, func() {
		if steps.Add(1) == int64(last) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	defer db.Close()
	looks := crashing(drivers[dialect], dsn, func() {})
	defer looks.Close()
	box := &millrace.Outbox{App: app, DB: db, Dialect: dialect, Every: 10 * time.Millisecond}
	go func() {
		defer stop()
		testkit.Poll(testkit.Patience, func() bool { return rows(ctx, looks) == 0 })
	}()
	return box.Relay(ctx)
}

// rows counts what the outbox holds; -1 if the database does not say.
func rows(ctx context.Context, db *sql.DB) int {
	n := -1
	if db.QueryRowContext(ctx, `SELECT count(*) FROM millrace_outbox`).Scan(&n) != nil {
		return -1
	}
	return n
}

// database is a server that tests start, kill and start again; SQLite has none.
type database struct {
	t       *testing.T
	dialect millrace.Dialect
	dsn     string
	command []string
	as      *syscall.Credential
	running *exec.Cmd
	db      *sql.DB
}

func start(t *testing.T, dialect millrace.Dialect) *database {
	dir, err := os.MkdirTemp("", "mr-db-") // sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	d := &database{t: t, dialect: dialect}
	var initial []string
	var owner string
	data := filepath.Join(dir, "data")
	switch dialect {
	case millrace.PostgreSQL:
		all, err := filepath.Glob("/usr/lib/postgresql/*/bin")
		if err != nil || len(all) == 0 {
			t.Fatal("there is no PostgreSQL: .ci/databases installs it")
		}
		bin := all[len(all)-1]
		owner, initial = "postgres", []string{bin + "/initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"}
		d.command = []string{bin + "/postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off"} // no machine dies here
		d.dsn = "host=" + dir + " user=postgres dbname=postgres sslmode=disable"
	case millrace.MySQL:
		owner, initial = "mysql", []string{"mariadb-install-db", "--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal", "--skip-test-db"}
		d.command = []string{"mariadbd", "--no-defaults", "--datadir=" + data, "--socket=" + dir + "/s", "--skip-networking", "--pid-file=" + dir + "/pid", "--innodb-flush-log-at-trx-commit=2"}
		d.dsn = "root@unix(" + dir + "/s)/mysql"
	case millrace.SQLite:
		d.dsn = "file:" + filepath.Join(dir, "shop.db") + "?_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)"
	}
	if os.Getuid() == 0 && owner != "" { // the servers refuse root
		u, err := user.Lookup(owner)
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		d.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	if initial != nil {
		if out, err := d.cmd(initial).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", initial[0], err, out)
		}
		d.serve()
		t.Cleanup(d.kill)
	}
	d.db = crashing(drivers[dialect], d.dsn, func() {})
	t.Cleanup(func() { _ = d.db.Close() })
	testkit.Eventually(t, "the database answers", func() bool { return d.answers() })
	return d
}

func (d *database) cmd(argv []string) *exec.Cmd {
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: d.as, Pdeathsig: syscall.SIGKILL}
	return c
}

func (d *database) serve() {
	d.running = d.cmd(d.command)
	if err := d.running.Start(); err != nil {
		d.t.Fatal(err)
	}
}

// kill kills the server and what it has started.
func (d *database) kill() {
	pids := append([]int{d.running.Process.Pid}, children(d.running.Process.Pid)...)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = d.running.Wait()
	testkit.Eventually(d.t, "all its processes have ended", func() bool {
		for _, pid := range pids[1:] {
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !bytes.Contains(stat, []byte(") Z ")) {
				return false
			}
		}
		return true
	})
}

// children returns the processes that a process has started.
func children(of int) (all []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(of) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			all = append(all, pid)
		}
	}
	return all
}

// again kills the server and starts it again.
func (d *database) again() {
	d.kill()
	d.serve()
	testkit.Eventually(d.t, "the database answers again", func() bool { return d.answers() })
}

func (d *database) answers() bool {
	var one int
	return d.db.QueryRowContext(d.t.Context(), `SELECT 1`).Scan(&one) == nil
}

// mail is what the orders here ask for.
var mail = millrace.Action("mail", func(context.Context, string) error { return nil })

// shop is a program with a database and a log.
type shop struct {
	*database
	app     *millrace.App
	box     *millrace.Outbox
	ordered int
	// tasks are those of committed orders, and none those of others.
	tasks, none []millrace.ID
}

func open(t *testing.T, dialect millrace.Dialect) *shop {
	s := &shop{database: start(t, dialect)}
	app, err := embedded.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = app.Close() })
	s.app, s.box = app, &millrace.Outbox{App: app, DB: s.db, Dialect: dialect}
	if err := s.box.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.ExecContext(t.Context(), `CREATE TABLE orders (number INTEGER PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
	return s
}

// order takes n orders, of which it commits every second.
func (s *shop) order(n int) {
	s.t.Helper()
	for range 2 * n {
		tx, err := s.db.BeginTx(s.t.Context(), nil)
		if err != nil {
			s.t.Fatal(err)
		}
		s.ordered++
		_, err = tx.ExecContext(s.t.Context(), fmt.Sprintf(`INSERT INTO orders (number) VALUES (%d)`, s.ordered))
		id, put := mail.SubmitTx(s.t.Context(), s.box, tx, "it's \"ü\\\x00\" ?")
		if err = errors.Join(err, put); err != nil {
			s.t.Fatal(err)
		}
		if s.ordered%2 == 0 {
			s.tasks, err = append(s.tasks, id), tx.Commit()
		} else {
			s.none, err = append(s.none, id), tx.Rollback()
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// judge wants one task of each committed order, none of another, and no row.
func (s *shop) judge() {
	s.t.Helper()
	// Connections of before a kill break at their first use.
	testkit.Eventually(s.t, "the outbox is empty", func() bool { return rows(s.t.Context(), s.db) == 0 })
	for _, id := range s.tasks {
		history, err := s.app.Client().History(s.t.Context(), id)
		if err != nil || len(history) > 2 { // a birth, and mostly an offer
			s.t.Fatalf("the task %s of an order has %d facts: %v", id, len(history), err)
		}
	}
	for _, id := range s.none {
		if _, err := s.app.Client().Task(s.t.Context(), id); !errors.Is(err, millrace.ErrUnknown) {
			s.t.Fatalf("there is a task %s of an order that was not committed: %v", id, err)
		}
	}
}
