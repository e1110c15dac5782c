package connect

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A list shows what was written before the command asked. If the server's read model lags, the
// command shows what there is and says so; other errors stay what they are.
func TestTheFirstAnswerReflectsTheEndOfTheLog(t *testing.T) {
	refused, unknown := errors.New("refused"), errors.New("no end")
	for _, c := range []struct {
		name    string
		end     error
		reaches time.Duration // until the read model reflects sequence 7
		answers error
		asked   []uint64
		want    error
		note    bool
	}{
		{name: "the read model is there", asked: []uint64{7}},
		{name: "the read model comes in time", reaches: time.Second, asked: []uint64{7}},
		{name: "the read model lags", reaches: time.Hour, asked: []uint64{7, 0}, note: true},
		{name: "the server refuses", answers: refused, asked: []uint64{7}, want: refused},
		{name: "the end of the log is unknown", end: unknown, asked: []uint64{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var notes bytes.Buffer
				var asked []uint64
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				a := New(nil, io.Discard, &notes, nil)
				a.Conn.Timeout = 5 * time.Second
				_, err := askFresh(ctx, a,
					func(context.Context) (uint64, error) { return 7, c.end },
					func(ctx context.Context, q Question) (string, error) {
						asked = append(asked, q.AtLeast)
						if q.AtLeast == 0 {
							return "", c.answers
						}
						select {
						case <-time.After(c.reaches):
							return "", c.answers
						case <-ctx.Done():
							return "", ctx.Err()
						}
					})
				if !errors.Is(err, c.want) || len(asked) != len(c.asked) || asked[0] != c.asked[0] || asked[len(asked)-1] != c.asked[len(asked)-1] {
					t.Errorf("asked for %d, and %v; want %d, and %v", asked, err, c.asked, c.want)
				}
				if said := strings.Contains(notes.String(), "lag behind the log"); said != c.note {
					t.Errorf("it says %q", notes.String())
				}
			})
		})
	}
}
