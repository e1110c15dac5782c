package millrace

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"millrace/events"
)

// A row goes when the log has it, stays while the log cannot be reached, is set aside if no other
// attempt can help, and else waits up to a minute.
func TestFateOfRows(t *testing.T) {
	for _, c := range []struct {
		err   error
		tries int
		want  fate
		wait  time.Duration
	}{
		{nil, 3, rowGoes, 0},
		{ErrInvalid, 0, rowAside, 0},
		{ErrOther, 0, rowAside, 0},
		{ErrTooLarge, 0, rowAside, 0},
		{events.ErrForgotten, 0, rowAside, 0},
		{context.DeadlineExceeded, 9, rowStays, 0},
		{context.Canceled, 0, rowStays, 0},
		{ErrFull, 0, rowWaits, time.Second},
		{&Taken{}, 3, rowWaits, 8 * time.Second},
		{errors.New("what nobody knows"), 1000, rowWaits, time.Minute},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("submit: %w", err)
		}
		r := row{tries: c.tries}
		if got, wait, _ := r.fate(err); got != c.want || wait != c.wait {
			t.Errorf("%v, tried %d times: %v after %v, want %v after %v", c.err, c.tries, got, wait, c.want, c.wait)
		}
	}
}

// Databases take every reason: they refuse NUL, halves of letters, and texts without end.
func TestStoredReasons(t *testing.T) {
	for _, text := range []string{"", "a\x00b", "\xff", strings.Repeat("ü", 5000)} {
		if got := stored(errors.New(text)); !utf8.ValidString(got) || strings.Contains(got, "\x00") || len(got) > 2000 {
			t.Errorf("%.10q is stored as %.10q, of %d bytes", text, got, len(got))
		}
	}
	if got := PostgreSQL.spelled("a = ? AND b = ?"); got != "a = $1 AND b = $2" {
		t.Error(got)
	}
}

// rows is a transaction that keeps the arguments of its statements.
type rows []any

func (r *rows) ExecContext(_ context.Context, _ string, args ...any) (sql.Result, error) {
	*r = append(*r, args...)
	return nil, nil
}

// A program that only writes rows needs no App.
func TestWriter(t *testing.T) {
	var tx rows
	id, err := Action("mail", func(context.Context, int) error { return nil }).SubmitTx(t.Context(), &Outbox{Dialect: SQLite}, &tx, 1)
	if err != nil || len(tx) != 2 || tx[0] != string(id) {
		t.Errorf("the row of %s is %v: %v", id, tx, err)
	}
}
