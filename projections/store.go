// Package projections keeps the read model: one [Projector] folds the log into SQLite, and a
// [Store] answers lists, filters, counts and pages from there.
//
// The read model decides nothing. Its rows are stored folds of packages task and node. Every answer
// names the sequence of the log that it reflects; before acting on an answer, read the truth from
// the log. The file can be deleted at any time: it is rebuilt from the log.
package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"millrace/projections/past"
	"millrace/task/node"
)

// pastSuffix, behind the name of the database file, names the file of the index of the past.
const pastSuffix = "-past"

// readers is how many queries may run at once; others wait for their turn.
const readers = 4

// Errors of a [Store].
var (
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("the read model is closed")
	// errDamaged: SQLite reports that the file is damaged.
	errDamaged = errors.New("the file of the read model is damaged")
)

// Store is the read model in a SQLite file. One [Projector] writes it; any number of queries read
// concurrently and never wait for the writer. Safe for concurrent use.
type Store struct {
	path  string
	dir   string // removed at the end; "" if the file is to stay
	form  *rowForm
	reach reach
	texts texts
	jobs  jobLists

	oldest latest[map[string]time.Time] // of [Store.Oldest]
	routes latest[[]node.Route]         // of [Store.PendingRoutes]

	asking sync.Mutex // held during a question about the present, from before its rows are read: so the index never goes back

	mu      sync.RWMutex // held for reading during each use of the files
	read    *sql.DB      // guarded by mu; nil once closed
	write   *sql.DB      // guarded by mu
	past    past.Index   // guarded by mu; closed with them
	notices []string     // guarded by mu
}

// Open opens the read model in the file path, and creates it if needed. An empty path or ":memory:"
// means a temporary file, removed by [Store.Close].
//
// A file of another schema version is removed and rebuilt. So is one that SQLite cannot read or
// that is not a read model, but that is first renamed to path + ".discarded". [Store.Notices] then
// says so. An error means that no file could be created or opened at path.
func Open(path string) (*Store, error) {
	s := &Store{path: path, form: newRowForm(), reach: newReach(), texts: texts{full: blockTasks}}
	if path == "" || path == ":memory:" {
		dir, err := os.MkdirTemp("", "millrace-")
		if err != nil {
			return nil, fmt.Errorf("open read model: %w", err)
		}
		s.dir, s.path = dir, filepath.Join(dir, "read.db")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open read model: %w", err), s.removeDir())
	}
	return s, nil
}

// Close ends the store once the present queries have ended; later ones are refused with
// [ErrClosed], and waiting callers are woken. Its [Projector] must have ended before.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read == nil {
		return nil
	}
	s.reach.close()
	return errors.Join(s.closeFiles(), s.removeDir())
}

// Notices says in words which files were discarded and why, the oldest first. The caller should log
// them: they are harmless, but until the log is folded anew the answers lag.
func (s *Store) Notices() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append([]string(nil), s.notices...)
}

// open opens the files, or discards them and creates new ones.
func (s *Store) open() error {
	why, err := s.inspect()
	if err != nil {
		return err
	}
	if why == "" {
		if err := s.openFiles(); err == nil {
			return nil
		} else if !damaged(err) {
			return err
		}
		why = errDamaged.Error()
	}
	if why != absent {
		s.notices = append(s.notices, fmt.Sprintf("%s: %s; it is made again from the log", s.path, why))
	}
	if err := s.removeFiles(why != absent && why != outdated); err != nil {
		return err
	}
	return s.create()
}

// Results of [Store.inspect] other than a usable file.
const (
	absent   = "there is none"
	outdated = "it is of another version of the schema"
	foreign  = "it is no read model of Millrace"
)

// inspect says why the file at path cannot be used; "" if it can.
func (s *Store) inspect() (string, error) {
	if info, err := os.Stat(s.path); errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
		return absent, nil
	} else if err != nil {
		return "", err
	}
	db, err := sql.Open("sqlite", s.dsn("mode=rw"))
	if err != nil {
		return "", err
	}
	defer db.Close()
	var application, version int
	err = errors.Join(
		db.QueryRow("PRAGMA application_id").Scan(&application),
		db.QueryRow("PRAGMA user_version").Scan(&version))
	switch {
	case damaged(err):
		return errDamaged.Error(), nil
	case err != nil:
		return "", err
	case application != applicationID:
		return foreign, nil
	case version != schemaVersion():
		return outdated, nil
	}
	return "", nil
}

// create creates the file. It contains inputs and outputs of tasks, so only its owner may read it;
// SQLite gives the files beside it the same mode.
func (s *Store) create() error {
	file, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", s.dsn("_pragma=auto_vacuum(incremental)", "_pragma=journal_mode(wal)"))
	if err != nil {
		return err
	}
	s.oldest.keep(0, nil)
	s.routes.keep(0, nil)
	_, err = db.Exec("BEGIN;" + schema() + "COMMIT")
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return s.openFiles()
}

// openFiles opens the one writing connection and the reading ones.
//
// With synchronous=NORMAL a crash of the machine may lose the last commits, which are then folded
// again, but cannot damage the file. A checkpoint comes each 16 MB of the write-ahead log, so that
// its fsyncs are few; what a large transaction added to that goes with it. Up to 4 MB of pages are
// cached.
func (s *Store) openFiles() error {
	connector, err := newPreparing(s.dsn(
		"_pragma=busy_timeout(5000)", "_pragma=journal_mode(wal)", "_pragma=synchronous(normal)",
		"_pragma=wal_autocheckpoint(4000)", "_pragma=journal_size_limit(16777216)", "_pragma=cache_size(-4000)"))
	if err != nil {
		return err
	}
	write := sql.OpenDB(connector)
	write.SetMaxOpenConns(1)
	var p position
	if err := p.load(context.Background(), write); err != nil {
		return errors.Join(err, write.Close())
	}
	connector, err = newPreparing(s.dsn("_pragma=busy_timeout(5000)", "_pragma=query_only(1)"))
	if err != nil {
		return errors.Join(err, write.Close())
	}
	read := sql.OpenDB(connector)
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	index, err := past.Open(s.pastPath(p.Trims), past.UsualBounds, s.reach.damage)
	if err == nil {
		err = s.removePast(p.Trims)
	}
	if err != nil {
		return errors.Join(err, write.Close(), read.Close())
	}
	s.read, s.write, s.past = read, write, index
	s.reach.set(p.Seq)
	s.jobs.reset()
	s.texts.begin(p.Seq == 0)
	return nil
}

// pastPath is the file of the index of the past after it was trimmed so often.
func (s *Store) pastPath(trims int64) string {
	if trims == 0 {
		return s.path + pastSuffix
	}
	return fmt.Sprintf("%s%s-%d", s.path, pastSuffix, trims)
}

// removePast removes all files of the index of the past but one; with -1, that, too.
func (s *Store) removePast(but int64) error {
	all, err := os.ReadDir(filepath.Dir(s.path))
	for _, file := range all {
		path := filepath.Join(filepath.Dir(s.path), file.Name())
		if strings.HasPrefix(file.Name(), filepath.Base(s.path)+pastSuffix) && (but < 0 || path != filepath.Clean(s.pastPath(but))) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

func (s *Store) dsn(params ...string) string {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: s.path}).EscapedPath()}
	for i, p := range params {
		if i > 0 {
			u.RawQuery += "&"
		}
		u.RawQuery += p
	}
	return u.String()
}

func (s *Store) closeFiles() error {
	err := errors.Join(s.read.Close(), s.write.Close(), s.past.Close())
	s.read, s.write = nil, nil
	s.jobs.reset()
	return err
}

// removeFiles removes the database; if keep is set, it renames it instead.
func (s *Store) removeFiles(keep bool) error {
	if keep {
		if err := os.Rename(s.path, s.path+".discarded"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(s.path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return s.removePast(-1)
}

func (s *Store) removeDir() error {
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// rebuild discards all rows; the fold begins anew. It waits for the present queries.
func (s *Store) rebuild(why string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read == nil {
		return ErrClosed
	}
	// A file that cannot be closed cleanly is removed nevertheless.
	_ = s.closeFiles()
	s.notices = append(s.notices, fmt.Sprintf("%s: %s; it is made again from the log", s.path, why))
	if err := s.removeFiles(false); err != nil {
		return fmt.Errorf("rebuild read model: %w", err)
	}
	if err := s.create(); err != nil {
		return fmt.Errorf("rebuild read model: %w", err)
	}
	return nil
}

// view runs f in a read-only transaction, so that all it sees is of one sequence, which is f's
// argument.
func (s *Store) view(ctx context.Context, what string, f func(tx *sql.Tx, seq uint64) error) error {
	return s.glance(what, func(db *sql.DB) error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer tx.Rollback() // nothing is lost: it only reads
		var p position
		if err := p.load(ctx, tx); err != nil {
			return err
		}
		return f(tx, p.Seq)
	})
}

// glance runs f without a transaction, which costs as much as a statement of its own. f may make one
// statement: the next would see another sequence.
func (s *Store) glance(what string, f func(db *sql.DB) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.read == nil {
		return fmt.Errorf("%s: %w", what, ErrClosed)
	}
	if err := f(s.read); err != nil {
		if damaged(err) {
			s.reach.damage()
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// damaged tells whether an error means that the file must be rebuilt.
func damaged(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code()&0xff == sqlite3.SQLITE_CORRUPT || e.Code()&0xff == sqlite3.SQLITE_NOTADB) || errors.Is(err, errDamaged) || errors.Is(err, past.ErrDamaged)
}

// position is the progress of the fold.
type position struct {
	// Seq is the last sequence folded.
	Seq uint64
	// Anchor is the sequence, and AnchorID the id, of a fact that stays in the log.
	Anchor   uint64
	AnchorID string
	// First is the first sequence folded.
	First uint64
	// Past is the end of the index of the past, and Trims how often that was trimmed.
	Past  past.End
	Trims int64
	// Below is the horizon of the log, and Forgot the one up to which the rows have forgotten.
	Below, Forgot uint64
	// Before is when the log stored the first message that stays, in microseconds since 1970.
	Before int64
	// Whole is the first sequence of which the rows and the index tell everything.
	Whole uint64
}

func (p *position) load(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) error {
	err := q.QueryRowContext(ctx, "SELECT seq, anchor, anchor_id, first, past, past_sum, trims, below, forgot, before, whole FROM reached").Scan(
		&p.Seq, &p.Anchor, &p.AnchorID, &p.First, &p.Past.Size, &p.Past.Sum, &p.Trims, &p.Below, &p.Forgot, &p.Before, &p.Whole)
	if errors.Is(err, sql.ErrNoRows) {
		return errDamaged
	}
	return err
}
