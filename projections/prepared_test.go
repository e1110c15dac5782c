package projections

import (
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"

	"millrace/task"
)

// preparedDB is a database with one connection that keeps statements, and a table of three numbers.
func preparedDB(t *testing.T) (*sql.DB, *preparedConn) {
	t.Helper()
	connector, err := newPreparing("file::memory:")
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var is *preparedConn
	err = conn.Raw(func(c any) error {
		is = c.(*preparedConn)
		_, err := is.sqliteConn.ExecContext(t.Context(), "CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1), (2), (3)", nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return db, is
}

func numbersIn(t *testing.T, q querier, query string, args ...any) (numbers []int) {
	t.Helper()
	var n int
	if err := each(t.Context(), q, query, args, []any{&n}, func() error { numbers = append(numbers, n); return nil }); err != nil {
		t.Fatal(err)
	}
	return numbers
}

func TestQueriesStayPrepared(t *testing.T) {
	db, conn := preparedDB(t)
	const query = "SELECT n FROM t WHERE n > ? ORDER BY n"
	for after, want := range map[int]string{0: "[1 2 3]", 2: "[3]", 3: "[]"} {
		if got := fmt.Sprint(numbersIn(t, db, query, after)); got != want {
			t.Errorf("after %d: %s, want %s", after, got, want)
		}
	}
	if len(conn.kept) != 1 {
		t.Errorf("%d statements are kept, want 1", len(conn.kept))
	}
	if _, err := db.Exec("ALTER TABLE t ADD COLUMN m INTEGER; INSERT INTO t VALUES (4, 0)"); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(numbersIn(t, db, query, 2)); got != "[3 4]" {
		t.Errorf("after a change of the table: %s", got)
	}
	if _, err := db.Query("SELECT n FROM nowhere"); err == nil {
		t.Error("a table that is not there was read")
	}
}

// A statement that writes stays prepared as well; a text of several statements runs whole each time.
func TestWritesStayPrepared(t *testing.T) {
	db, conn := preparedDB(t)
	before := len(conn.kept)
	for n := range 3 {
		if _, err := db.Exec("UPDATE t SET n = n + ? WHERE n = 3", n); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec("DELETE FROM t WHERE n > 3; INSERT INTO t VALUES (3)"); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(numbersIn(t, db, "SELECT n FROM t ORDER BY n")); got != "[1 2 3]" {
		t.Errorf("the table has %s", got)
	}
	if got := len(conn.kept) - before; got != 3 {
		t.Errorf("%d statements more are kept, want 3", got)
	}
}

// A query may run again while its rows are being read, in the same transaction.
func TestAQueryWithinItself(t *testing.T) {
	db, conn := preparedDB(t)
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	const query = "SELECT n FROM t WHERE n >= ? ORDER BY n"
	var pairs []string
	var n int
	if err := each(t.Context(), tx, query, []any{1}, []any{&n}, func() error {
		pairs = append(pairs, fmt.Sprint(n, numbersIn(t, tx, query, n)))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(pairs); got != "[1 [1 2 3] 2 [2 3] 3 [3]]" {
		t.Errorf("got %s", got)
	}
	if len(conn.kept) != 1 || conn.kept[query].busy {
		t.Errorf("kept are %v", conn.kept)
	}
}

func TestFewStatementsAreKept(t *testing.T) {
	db, conn := preparedDB(t)
	const often = "SELECT n FROM t WHERE n = 1"
	for i := range 3 * keptStatements {
		numbersIn(t, db, fmt.Sprintf("SELECT n FROM t WHERE n = 1 AND %d", i))
		numbersIn(t, db, often)
	}
	if len(conn.kept) != keptStatements || conn.kept[often] == nil {
		t.Errorf("%d statements are kept, the one in use: %v", len(conn.kept), conn.kept[often] != nil)
	}
}

func TestTasksInManyParts(t *testing.T) {
	s := open(t, "")
	f, err := newFold(t.Context(), s, DefaultCacheSize)
	if err != nil {
		t.Fatal(err)
	}
	records := noops(t, 2*idsAtOnce+5, 1)
	if err := f.apply(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	if err := f.w.close(); err != nil {
		t.Fatal(err)
	}
	ids, err := s.ids(t.Context(), "list all", "SELECT id FROM tasks")
	if err != nil || len(ids) != 2*idsAtOnce+5 {
		t.Fatalf("%d ids, %v", len(ids), err)
	}
	var asking sync.WaitGroup
	for _, n := range []int{0, 1, 2, 3, 5, 8, 17, idsAtOnce, idsAtOnce + 1, len(ids)} {
		asking.Go(func() {
			found, err := s.Known(t.Context(), append(ids[:n:n], "nobody"))
			if err != nil || len(found) != n {
				t.Errorf("of %d tasks %d are known, %v", n, len(found), err)
			}
			for _, seq := range []uint64{1, records[len(records)/2].Seq, records[len(records)-1].Seq, math.MaxInt64} {
				want := map[task.ID]bool{}
				for i := range found {
					if found[i].Seq >= seq {
						want[found[i].ID] = true
					}
				}
				later, unknown, err := s.Since(t.Context(), append(ids[:n:n], "nobody"), seq)
				if err != nil || !maps.Equal(later, want) || !slices.Equal(unknown, []task.ID{"nobody"}) {
					t.Errorf("of %d tasks %d changed at %d or later, want %d; %v are unknown, %v", n, len(later), seq, len(want), unknown, err)
				}
				if later, unknown, err = s.Since(t.Context(), ids[:n], seq); err != nil || !maps.Equal(later, want) || len(unknown) > 0 {
					t.Errorf("of %d tasks %d changed at %d or later, want %d; %v are unknown, %v", n, len(later), seq, len(want), unknown, err)
				}
			}
		})
	}
	asking.Wait()
}
