package incident

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"millrace/events"
	"millrace/task/queue"
	"millrace/task/value"
)

// sample returns a file with several blocks of facts, and the facts.
func sample(t testing.TB, facts int) (file []byte, records []events.Record) {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, Manifest{Millrace: "test", From: Point{Seq: 10}, To: Point{Seq: uint64(10 * facts)}})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range facts {
		raw := fmt.Appendf(nil, `{"x":"%x"}`, random.Uint64()) // incompressible data
		for range 60 {
			raw = fmt.Appendf(raw[:len(raw)-2], `%016x"}`, random.Uint64())
		}
		r := events.Record{Seq: uint64(10 * (i + 1)), Stored: time.Unix(int64(i), 0).UTC(), Kind: events.KindOther, Place: "mr.x", Raw: raw}
		records = append(records, r)
		if err := w.Fact(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Output(&Lines{Seq: 3, Stored: time.Unix(1, 0).UTC(), Subject: "mr.tasklog.x", Body: []byte(`{"n":1}`)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), records
}

func seqs(t testing.TB, f *File) (all []uint64) {
	t.Helper()
	for r, err := range f.Facts() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r.Seq)
	}
	return all
}

func TestFile(t *testing.T) {
	file, records := sample(t, 500)
	f, err := Open(file)
	if err != nil || len(f.Missing) > 0 {
		t.Fatalf("%+v, %v", f, err)
	}
	i := 0
	for r, err := range f.Facts() {
		if err != nil || r.Seq != records[i].Seq || !r.Stored.Equal(records[i].Stored) || !bytes.Equal(r.Raw, records[i].Raw) || r.Kind != records[i].Kind || r.Place != records[i].Place {
			t.Fatalf("%+v, %v; want %+v", r, err, records[i])
		}
		i++
	}
	if m := f.Manifest; i != 500 || m.Facts != 500 || m.Output != 1 || m.Incident != Version || len(f.Blocks) < 5 {
		t.Errorf("%d facts, %+v, %v", i, m, f.Blocks)
	}
	for l, err := range f.Output() {
		if err != nil || l.Seq != 3 || string(l.Body) != `{"n":1}` {
			t.Errorf("%+v, %v", l, err)
		}
	}
	// Notes are appended, and one of the same name replaces the one before.
	for _, text := range []string{"first", "second"} {
		var more bytes.Buffer
		if err := Append(&more, f, []Note{{Name: "a", Seq: 20, Text: text}, {Name: text}}); err != nil {
			t.Fatal(err)
		}
		file = append(file, more.Bytes()...)
		if f, err = Open(file); err != nil || len(f.Missing) > 0 {
			t.Fatalf("%+v, %v", f.Missing, err)
		}
	}
	if len(f.Notes) != 3 || f.Notes[1].Text != "second" || len(seqs(t, f)) != 500 {
		t.Errorf("%+v", f.Notes)
	}
	for name, data := range map[string][]byte{"nothing": nil, "an export": []byte(`{"export":1}`)} {
		if _, err := Open(data); !errors.Is(err, ErrNone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, data := range map[string][]byte{"a lead alone": lead, "a block that is cut off": file[:headSize+10]} {
		if _, err := Open(data); !errors.Is(err, ErrRuined) {
			t.Errorf("%s: %v", name, err)
		}
	}
	later := bytes.Clone(file)
	later[12] = Version + 1
	fixSum(later)
	if _, err := Open(later); !errors.Is(err, ErrLater) {
		t.Errorf("a later version: %v", err)
	}
}

// A file has the very bytes of results that the log keeps apart.
func TestResults(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file, Manifest{Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	html := []byte("\"<b>\" ")
	large := bytes.Repeat([]byte("0123456789"), 300_000)
	wrong := []byte("1")
	for digest, body := range map[string][]byte{value.Digest(html): html, value.Digest(large): large, value.Digest([]byte("2")): wrong} {
		if err := w.Result(Result{Task: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Digest: digest, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(file.Bytes())
	if err != nil || f.Manifest.Results != 3 || len(f.Missing) > 0 {
		t.Fatalf("%+v, %v", f, err)
	}
	for _, body := range [][]byte{html, large} {
		if is, err := f.Result("", value.Digest(body), len(body)); err != nil || !bytes.Equal(is, body) {
			t.Errorf("%d bytes, %v; want %d", len(is), err, len(body))
		}
	}
	for text, size := range map[string]int{"2": 1, "3": 1, string(html): 3} {
		if is, err := f.Result("", value.Digest([]byte(text)), size); err == nil {
			t.Errorf("%q of %d bytes: %q", text, size, is)
		}
	}
}

// A file is cut or damaged at any place. It opens, the rest is unchanged, each lost fact lies in a
// part that is reported as missing, and no present fact does.
func TestDamaged(t *testing.T) {
	file, records := sample(t, 500)
	random := rand.New(rand.NewPCG(3, 4))
	for n := range 60 {
		is := bytes.Clone(file)
		what := "cut"
		switch n % 4 {
		case 0:
			is = is[:random.IntN(len(is))]
		case 1:
			what = "a bit"
			is[random.IntN(len(is))] ^= 1 << random.IntN(8)
		case 2:
			what = "a part overwritten"
			at := random.IntN(len(is))
			for i := at; i < min(at+random.IntN(100_000), len(is)); i++ {
				is[i] = byte(random.Uint32())
			}
		case 3:
			what = "a part cut out"
			at := random.IntN(len(is))
			is = slices.Delete(is, at, min(at+1+random.IntN(200_000), len(is)))
		}
		if bytes.Equal(is, file) {
			continue
		}
		f, err := Open(is)
		if (errors.Is(err, ErrNone) || errors.Is(err, ErrRuined)) && len(is) < 2000 {
			continue
		}
		if err != nil {
			t.Fatalf("%d, %s: %v", n, what, err)
		}
		if len(f.Missing) == 0 {
			t.Fatalf("%d, %s: nothing is missing", n, what)
		}
		there := map[uint64]bool{}
		for _, seq := range seqs(t, f) {
			there[seq] = true
		}
		gap := func(seq uint64) bool {
			return slices.ContainsFunc(f.Missing, func(m Missing) bool {
				return m.Section == "facts" && seq > m.After && (m.Before == 0 || seq < m.Before)
			})
		}
		for i := range records {
			switch seq := records[i].Seq; {
			case !there[seq] && !gap(seq):
				t.Fatalf("%d, %s: #%d is not there, and nothing says so: %+v", n, what, seq, f.Missing)
			case there[seq] && gap(seq):
				t.Fatalf("%d, %s: #%d is there, and said to be missing: %+v", n, what, seq, f.Missing)
			}
		}
		if err := Append(&bytes.Buffer{}, f, []Note{{Name: "x"}}); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%d, %s: a note is added: %v", n, what, err)
		}
	}
}

// For any damage, [File.Whole] has for each subject all facts, or none, or those before the first
// missing fact anywhere.
func TestWhole(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, Manifest{})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(5, 6))
	facts := map[string]int{}
	for seq := range uint64(3000) {
		f := events.Fact{ID: "x", At: time.Unix(int64(seq), 0), Queue: fmt.Sprintf("q%d", random.IntN(50)+50*int(seq/500)), Event: queue.Paused{Reason: fmt.Sprintf("%x %x %x", random.Uint64(), random.Uint64(), random.Uint64())}}
		raw, err := events.Encode(nil, &f)
		if err == nil {
			err = w.Fact(&events.Record{Seq: seq + 1, Stored: f.At, Kind: events.KindQueue, Place: "mr.x", Fact: f, Raw: raw})
		}
		if err != nil {
			t.Fatal(err)
		}
		facts[f.Queue]++
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	file, partly := b.Bytes(), 0
	for n := range 60 {
		is := bytes.Clone(file)
		at := random.IntN(len(is))
		if n%2 == 0 {
			is = is[:at]
		} else {
			is[at] ^= 0xff
		}
		f, err := Open(is)
		if errors.Is(err, ErrNone) || errors.Is(err, ErrRuined) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		there, last := map[string]int{}, uint64(0)
		for r, err := range f.Whole() {
			if err != nil {
				t.Fatal(err)
			}
			there[r.Fact.Queue]++
			last = r.Seq
		}
		if until, bounded := f.Until(); bounded {
			if last > until {
				t.Fatalf("#%d is there, and it is whole up to #%d", last, until)
			}
			continue
		}
		for queue, n := range there {
			if n != facts[queue] {
				t.Fatalf("%d of %d facts of %s are there", n, facts[queue], queue)
			}
		}
		if len(f.Incomplete) != len(facts)-len(there) {
			t.Fatalf("%d things are incomplete, %d of %d are there", len(f.Incomplete), len(there), len(facts))
		}
		if len(there) > 0 && len(there) < len(facts) {
			partly++
		}
	}
	if partly == 0 {
		t.Error("no file was whole in part")
	}
}

// Any file is either read or refused.
func FuzzOpen(f *testing.F) {
	file, _ := sample(f, 3)
	f.Add(file)
	f.Add(file[:len(file)/2])
	f.Add(append(bytes.Clone(lead), make([]byte, 100)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		for at := bytes.Index(data, lead); at >= 0 && at+headSize <= len(data); {
			fixSum(data[at:])
			next := bytes.Index(data[at+1:], lead)
			if next < 0 {
				break
			}
			at += 1 + next
		}
		is, err := Open(data)
		if err != nil {
			return
		}
		for range is.Facts() {
		}
		for range is.Output() {
		}
	})
}

// fixSum corrects the checksum of a block's head.
func fixSum(b []byte) {
	binary.LittleEndian.PutUint32(b[sumAt:], crc32.Checksum(b[:sumAt], castagnoli))
}

// Even of a short file, most can be read when any one place is damaged.
func TestDamagedInOnePlace(t *testing.T) {
	file, _ := sample(t, 40)
	for at := 2000; at < len(file)-2000; at += 500 { // the manifest is at both ends
		is := bytes.Clone(file)
		is[at] ^= 0x55
		f, err := Open(is)
		if err != nil || len(seqs(t, f)) < 20 {
			t.Fatalf("a byte at %d of %d is damaged: %v, %d of 40 facts are there", at, len(file), err, len(seqs(t, f)))
		}
	}
}

// What heads claim bounds what is unpacked: a head that claims less than its frame holds, or more than
// there is, costs no more than it claims, and a file that claims too much in all is refused.
func TestHeadsThatLie(t *testing.T) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	var large bytes.Buffer // a frame that does not say its size
	w, err := zstd.NewWriter(&large, zstd.WithEncoderConcurrency(1))
	for range 100 {
		if err == nil {
			_, err = w.Write(make([]byte, 1<<20))
		}
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	lie := func(frame []byte, number int, claim uint32) []byte {
		b := appendBlock(nil, enc, Block{Section: SectionFacts, Number: uint32(number), Lines: 1}, nil)[:headSize]
		le := binary.LittleEndian
		le.PutUint32(b[40:], uint32(len(frame)))
		le.PutUint32(b[44:], claim)
		le.PutUint32(b[48:], crc32.Checksum(frame, castagnoli))
		le.PutUint32(b[sumAt:], crc32.Checksum(b[:sumAt], castagnoli))
		return append(b, frame...)
	}
	small := enc.EncodeAll([]byte("{}"), nil)
	for name, c := range map[string]struct {
		frame []byte
		claim uint32
		times int
		most  uint64 // bytes that may be taken
		want  error
	}{
		"claims less than it holds":              {large.Bytes(), 1000, 6, 8 << 20, ErrRuined},
		"claims more than its frame says":        {small, 100 << 20, 2, 8 << 20, ErrRuined},
		"claims more than any block":             {small, maxBlock + 1, 6, 8 << 20, ErrRuined},
		"many that claim too much together":      {small, 100 << 20, 1000, 8 << 20, ErrLarge},
		"honest ones that are too much together": {large.Bytes(), 100 << 20, 6, 300 << 20, ErrLarge},
	} {
		var file []byte
		for i := range c.times {
			file = append(file, lie(c.frame, i, c.claim)...)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(file)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, c.want) || took > c.most {
			t.Errorf("%s: %v after %d MiB, want %v after at most %d", name, err, took>>20, c.want, c.most>>20)
		}
	}
}
