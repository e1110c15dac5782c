package incident

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
)

// forgets is a log with messages of all forms, and gaps between them.
func forgets(seed uint64, messages int) (*events.Memory, []events.Record) {
	random := rand.New(rand.NewPCG(seed, 1))
	records := make([]events.Record, messages)
	seq := uint64(0)
	for i := range records {
		if seq++; random.IntN(10) == 0 {
			seq += random.Uint64N(3)
		}
		r := events.Record{Seq: seq, Stored: time.Unix(int64(i), int64(random.IntN(1e9))).UTC(), Kind: events.KindChain, Place: "mr.task.01J00000000000000000000000"}
		switch random.IntN(4) {
		case 0:
			r.Raw, r.Err, r.Fact = []byte("\x00 no\nfact"), errors.New("it is no fact"), events.Fact{Task: "01J00000000000000000000000"}
		case 1:
			r.Kind, r.Place, r.Raw = events.KindProbe, "mr.probe", nil
		default:
			r.Fact = events.Fact{ID: "01J0000000000000000000000A", At: r.Stored, Task: "01J00000000000000000000000", Event: task.CancelRequested{Reason: fmt.Sprint(random.Uint64())}}
			raw, err := events.Encode(nil, &r.Fact)
			if err != nil {
				panic(err)
			}
			if r.Fact, err = events.Decode(raw); err != nil {
				panic(err)
			}
			r.Raw = raw
		}
		records[i] = r
	}
	log := events.NewMemory(time.Now, time.Second)
	log.Import(records)
	return log, records
}

func chosen(below uint64) task.HorizonChosen {
	return task.HorizonChosen{Span: task.Span{Below: below, Before: time.Unix(int64(below), 0)}}
}

// seal seals a log at the given horizons, and returns what is to be recorded.
func seal(t testing.TB, log events.Follower, to Place, below ...uint64) (sealed []task.HorizonSealed) {
	t.Helper()
	first := uint64(1)
	for _, h := range below {
		is, err := (&Sealer{Log: log, To: to}).Seal(t.Context(), first, chosen(h))
		if err != nil {
			t.Fatal(err)
		}
		sealed, first = append(sealed, is), h
	}
	return sealed
}

func open(t testing.TB, place Place, sealed ...task.HorizonSealed) *Archive {
	t.Helper()
	a, err := OpenArchive(t.Context(), place, sealed)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// text is all that an export keeps of records.
func lines(records []events.Record) string {
	var b []byte
	for i := range records {
		b = events.AppendLine(b, &records[i])
	}
	return string(b)
}

// The segments and what the log still has are the log that forgets nothing, message by message.
func TestSegmentsAndLog(t *testing.T) {
	t.Parallel()
	for seed := range uint64(16) {
		random := rand.New(rand.NewPCG(seed, 2))
		log, records := forgets(seed, 50+random.IntN(200))
		end := records[len(records)-1].Seq
		var below []uint64
		for h := 2 + random.Uint64N(end-1); h < end && len(below) < 5; h += 1 + random.Uint64N(end) {
			below = append(below, h)
		}
		place := Folder(t.TempDir())
		sealed := seal(t, log, place, below...)
		if again := seal(t, log, place, below...); !slices.Equal(again, sealed) {
			t.Fatalf("sealed again: %v, want %v", again, sealed)
		}
		a := open(t, place, sealed...)
		if len(a.Faults)+len(a.Spare) > 0 || len(a.Segments) != len(below) {
			t.Fatalf("%d segments, %v, %v; sealed below %v", len(a.Segments), a.Faults, a.Spare, below)
		}
		var all []events.Record
		for r, err := range a.Records(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		for i, s := range a.Segments {
			if !s.Recorded || !s.Before.Equal(time.Unix(int64(below[i]), 0)) || s.Messages != sealed[i].Messages || s.Packed != s.Bytes {
				t.Errorf("%+v is recorded as %+v", s, sealed[i])
			}
		}
		_, last, _ := a.Span()
		for _, r := range records {
			if r.Seq > last {
				all = append(all, r)
			}
		}
		if got, want := lines(all), lines(records); got != want {
			t.Fatalf("seed %d, below %v: archive and log are\n%s\nwant\n%s", seed, below, got, want)
		}
	}
}

// Whatever becomes of segments is found, and said of the part that it concerns; the others stay readable.
func TestArchiveFaults(t *testing.T) {
	t.Parallel()
	log, _ := forgets(1, 400)
	name := func(all []task.HorizonSealed, dir Folder, i int) string {
		return filepath.Join(string(dir), all[i].Segment)
	}
	change := func(t *testing.T, file string, to func([]byte) []byte) {
		t.Helper()
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, to(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	move := func(t *testing.T, from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, all []task.HorizonSealed, dir Folder)
		want []string // "first-last why", by a part of it
		left int      // segments that stay readable
	}{
		{"nothing", func(*testing.T, []task.HorizonSealed, Folder) {}, nil, 4},
		{"a bit", func(t *testing.T, all []task.HorizonSealed, dir Folder) {
			change(t, name(all, dir, 1), func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
		}, []string{"100-199 not as it was sealed"}, 3},
		{"cut", func(t *testing.T, all []task.HorizonSealed, dir Folder) {
			change(t, name(all, dir, 2), func(b []byte) []byte { return b[:len(b)-1] })
		}, []string{"200-299 not as it was sealed"}, 3},
		{"empty", func(t *testing.T, all []task.HorizonSealed, dir Folder) {
			change(t, name(all, dir, 3), func([]byte) []byte { return nil })
		}, []string{"300-349 not as it was sealed"}, 3},
		{"grown", func(t *testing.T, all []task.HorizonSealed, dir Folder) {
			change(t, name(all, dir, 0), func(b []byte) []byte { return append(b, b...) })
		}, []string{"1-99 not as it was sealed"}, 3},
		{"missing", func(t *testing.T, all []task.HorizonSealed, dir Folder) {
			if err := dir.Remove(t.Context(), all[1].Segment); err != nil {
				t.Fatal(err)
			}
		}, []string{"100-199 not there"}, 3},
		{"the last is missing", func(t *testing.T, all []task.HorizonSealed, dir Folder) {
			if err := dir.Remove(t.Context(), all[3].Segment); err != nil {
				t.Fatal(err)
			}
		}, []string{"300-349 not there"}, 3},
		{"the first was removed", func(t *testing.T, all []task.HorizonSealed, dir Folder) {
			if err := dir.Remove(t.Context(), all[0].Segment); err != nil {
				t.Fatal(err)
			}
		}, nil, 3},
		{"another order", func(t *testing.T, all []task.HorizonSealed, dir Folder) {
			one, two := name(all, dir, 1), name(all, dir, 2)
			move(t, one, one+"x")
			move(t, two, one)
			move(t, one+"x", two)
		}, []string{"100-199 not as it was sealed", "200-299 not as it was sealed"}, 2},
		{"another name", func(t *testing.T, all []task.HorizonSealed, dir Folder) {
			move(t, name(all, dir, 1), strings.Replace(name(all, dir, 1), "000000000199", "000000000198", 1))
		}, []string{"100-198 not as it was sealed", "100-199 not there"}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := Folder(t.TempDir())
			sealed := seal(t, log, dir, 100, 200, 300, 350)
			c.do(t, sealed, dir)
			a := open(t, dir, sealed...)
			ok := len(a.Faults) == len(c.want) && len(a.Segments) == c.left
			for i := range min(len(a.Faults), len(c.want)) {
				span, why, _ := strings.Cut(c.want[i], " ")
				f := a.Faults[i]
				ok = ok && fmt.Sprintf("%d-%d", f.First, f.Last) == span && strings.Contains(f.Why, why)
			}
			if !ok {
				t.Errorf("%d segments are left, and the faults are %v; want %d, %q", len(a.Segments), a.Faults, c.left, c.want)
			}
			for r, err := range a.Records(t.Context()) {
				if err != nil {
					t.Errorf("#%d: %v", r.Seq, err)
				}
			}
		})
	}
}

// A segment whose digest is another one than the log has recorded is whole, and no proof.
func TestArchiveOfAnotherLog(t *testing.T) {
	t.Parallel()
	log, _ := forgets(1, 100)
	dir := Folder(t.TempDir())
	sealed := seal(t, log, dir, 50)
	sealed[0].Digest = strings.Repeat("0", 64)
	a := open(t, dir, sealed...)
	if len(a.Faults) != 1 || !strings.Contains(a.Faults[0].Why, "another digest") {
		t.Errorf("found %v", a.Faults)
	}
	if a = open(t, dir); len(a.Faults) != 0 || a.Segments[0].Recorded {
		t.Errorf("without a log, found %v, %+v", a.Faults, a.Segments)
	}
	// Of two segments of one part, the one that the log knows counts.
	other, _ := forgets(2, 100)
	for _, counts := range []events.Follower{log, other} {
		dir := Folder(t.TempDir())
		for _, l := range []events.Follower{log, other} {
			seal(t, l, dir, 40)
		}
		a := open(t, dir, seal(t, counts, dir, 40)...)
		if len(a.Segments) != 1 || len(a.Spare) != 1 || !a.Segments[0].Recorded || len(a.Faults) > 0 {
			t.Errorf("segments %v, spare %v, faults %v", a.Segments, a.Spare, a.Faults)
		}
	}
}

// full is a place without room for more than some bytes.
type full struct {
	Folder
	room int
}

var errFull = errors.New("no space left on device")

func (f *full) Put(ctx context.Context, write func(io.Writer) (string, error)) error {
	return f.Folder.Put(ctx, func(to io.Writer) (string, error) {
		return write(writer(func(b []byte) (int, error) {
			if f.room -= len(b); f.room < 0 {
				return 0, errFull
			}
			return to.Write(b)
		}))
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// Where there is no room, there is an error and no part of a segment, until there is room.
func TestSealWithoutRoom(t *testing.T) {
	t.Parallel()
	log, _ := forgets(1, 1000)
	dir := Folder(t.TempDir())
	before := chosen(900)
	for _, room := range []int{0, 1, 1000} {
		is, err := (&Sealer{Log: log, To: &full{dir, room}}).Seal(t.Context(), 1, before)
		left, bad := os.ReadDir(string(dir))
		if !errors.Is(err, errFull) || is != (task.HorizonSealed{}) || bad != nil || len(left) > 0 {
			t.Fatalf("with room for %d bytes: %+v, %v; left are %v, %v", room, is, err, left, bad)
		}
	}
	if a := open(t, dir, seal(t, log, dir, 900)...); len(a.Segments) != 1 || !a.Segments[0].Recorded {
		t.Errorf("with room: %+v", a)
	}
}

// altered is a place that stores something else than what it is given.
type altered struct{ Folder }

func (p altered) Put(ctx context.Context, write func(io.Writer) (string, error)) error {
	return p.Folder.Put(ctx, func(to io.Writer) (string, error) {
		var b bytes.Buffer
		name, err := write(&b)
		b.Bytes()[b.Len()/2] ^= 1
		_, bad := to.Write(b.Bytes())
		return name, errors.Join(err, bad)
	})
}

// What does not read back is not sealed.
func TestSealReadsBack(t *testing.T) {
	t.Parallel()
	log, _ := forgets(1, 1000)
	if is, err := (&Sealer{Log: log, To: altered{Folder(t.TempDir())}}).Seal(t.Context(), 1, chosen(900)); !errors.Is(err, errTorn) {
		t.Errorf("sealed %+v, %v", is, err)
	}
}

// Servers that seal at once make one segment.
func TestSealAtOnce(t *testing.T) {
	t.Parallel()
	log, _ := forgets(1, 2000)
	dir := Folder(t.TempDir())
	var sealed [8]task.HorizonSealed
	var errs [8]error
	var all sync.WaitGroup
	for i := range sealed {
		all.Go(func() {
			sealed[i], errs[i] = (&Sealer{Log: log, To: dir}).Seal(t.Context(), 1, chosen(1500))
		})
	}
	all.Wait()
	left, err := os.ReadDir(string(dir))
	if err = errors.Join(append(errs[:], err)...); err != nil || len(left) != 1 || len(slices.Compact(sealed[:])) != 1 {
		t.Errorf("%v: sealed %v; there are %v", err, sealed, left)
	}
	if a := open(t, dir, sealed[0]); len(a.Segments) != 1 || len(a.Faults) > 0 {
		t.Errorf("found %+v", a)
	}
}
