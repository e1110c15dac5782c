package incident

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/klauspost/compress/zstd"

	"millrace/events"
	"millrace/task"
)

// Segment is a part of the log in an archive: what the log had between two horizons. It is an export,
// packed with zstd; "zstd -dc" shows it. Its name says which sequences it covers, and the beginning of
// the digest of its text. So two servers that seal at once replace no segment of each other, whatever
// their versions.
//
//	000000000001-000000204800-9f86d081884c7d65.jsonl.zst
type Segment struct {
	Name string
	// First and Last are the sequences that it covers, whether or not the log had each of them.
	First, Last uint64
	// Bytes is its size as it is stored.
	Bytes int64
	// sum is the beginning of its digest.
	sum string
}

// sumDigits is how many digits of the digest a name has.
const sumDigits = 16

var segmentName = regexp.MustCompile(`^(\d{12,20})-(\d{12,20})-([0-9a-f]{16})\.jsonl\.zst$`)

// IsSegment tells whether a name is that of a segment.
func IsSegment(name string) bool {
	_, is := segmentOf(name, 0)
	return is
}

// segmentOf is the segment of a name; false if it is none.
func segmentOf(name string, bytes int64) (s Segment, is bool) {
	found := segmentName.FindStringSubmatch(name)
	if found == nil {
		return s, false
	}
	first, bad := strconv.ParseUint(found[1], 10, 64)
	last, worse := strconv.ParseUint(found[2], 10, 64)
	return Segment{name, first, last, bytes, found[3]}, bad == nil && worse == nil && first > 0 && first <= last
}

// Place is where segments lie: a folder, or an object store.
type Place interface {
	// List returns the names of what lies there, with sizes in bytes.
	List(ctx context.Context) (map[string]int64, error)
	// Open opens what lies there under a name.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Put stores what write writes, under the name that it returns. When Put returns, that outlasts a
	// loss of power; after an error nothing is there under the name that was not there before.
	Put(ctx context.Context, write func(io.Writer) (name string, err error)) error
	// Remove removes what lies there under a name.
	Remove(ctx context.Context, name string) error
}

// Sealer writes segments of a log.
type Sealer struct {
	Log events.Follower
	To  Place
	// Import says what the log lacks.
	Import events.Import
}

// Seal stores what the log has from first up to a chosen horizon, reads it back, and returns what the
// log is to record of it. It may be done again, and by two servers at once: one log makes one segment.
// After an error nothing may be removed from the log.
func (s *Sealer) Seal(ctx context.Context, first uint64, chosen task.HorizonChosen) (is task.HorizonSealed, err error) {
	last := chosen.Below - 1
	if first == 0 || first > last {
		return is, fmt.Errorf("there is nothing between #%d and #%d", first, chosen.Below)
	}
	header := events.ExportHeader{From: first, To: last, Before: chosen.Before, Import: s.Import}
	var wrote Held
	var name string
	err = s.To.Put(ctx, func(to io.Writer) (string, error) {
		wrote, err = s.write(ctx, to, header)
		name = fmt.Sprintf("%012d-%012d-%.*s.jsonl.zst", first, last, sumDigits, wrote.Digest)
		return name, err
	})
	if err != nil {
		return is, fmt.Errorf("seal #%d to #%d: %w", first, last, err)
	}
	segment, _ := segmentOf(name, 0)
	held, err := segment.Read(ctx, s.To, func(*events.Record) error { return nil })
	if err == nil && held.Digest != wrote.Digest {
		err = errTorn
	}
	if err != nil {
		return is, fmt.Errorf("read %s back: %w", name, err)
	}
	return task.HorizonSealed{Span: chosen.Span, Segment: name, Digest: held.Digest, First: first, Last: last, Messages: held.Messages, Bytes: held.Packed}, nil
}

// write writes the text of a segment.
func (s *Sealer) write(ctx context.Context, to io.Writer, header events.ExportHeader) (is Held, err error) {
	enc, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return is, err
	}
	defer func() { err = errors.Join(err, enc.Close()) }()
	sum := sha256.New()
	out, err := events.NewExportWriter(io.MultiWriter(sum, enc), header)
	if err != nil {
		return is, err
	}
	feed, err := s.Log.Follow(ctx, header.From)
	if err != nil {
		return is, err
	}
	defer feed.Close()
	for reached := uint64(0); reached < header.To; { // behind it the log has the choice of the horizon
		records, err := feed.Next(ctx)
		if err != nil {
			return is, err
		}
		for i := range records {
			if reached = records[i].Seq; reached > header.To {
				break
			}
			if err := out.Write(&records[i]); err != nil {
				return is, err
			}
			is.Messages++
		}
	}
	if err := errors.Join(out.Flush(), enc.Close()); err != nil {
		return is, err
	}
	is.Digest = hex.EncodeToString(sum.Sum(nil))
	return is, nil
}

// Held is what a segment holds.
type Held struct {
	events.ExportHeader
	// Digest is the SHA-256 of its text, unpacked, in hex.
	Digest   string
	Messages uint64
	// Packed is its size as it is stored, in bytes.
	Packed int64
}

// errTorn: a segment is not what was stored.
var errTorn = errors.New("it is not as it was sealed: damaged, or cut off")

// text opens the text of a segment.
func (s *Segment) text(ctx context.Context, from Place, do func(packed *counted, lines io.Reader) error) error {
	in, err := from.Open(ctx, s.Name)
	if err != nil {
		return err
	}
	defer in.Close()
	packed := &counted{from: in}
	dec, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	defer dec.Close()
	return do(packed, dec)
}

// header reads the first line.
func (s *Segment) header(ctx context.Context, from Place) (is events.ExportHeader, err error) {
	err = s.text(ctx, from, func(_ *counted, text io.Reader) error {
		lines, err := events.NewExportReader(text)
		if err == nil {
			is = lines.Header()
		}
		return err
	})
	return is, err
}

// Read reads a segment whole, and passes its records to each. Only at the end, when it returns no error,
// is it known to be as it was sealed.
func (s *Segment) Read(ctx context.Context, from Place, each func(*events.Record) error) (is Held, err error) {
	sum := sha256.New()
	err = s.text(ctx, from, func(packed *counted, text io.Reader) error {
		torn := func(err error) error { return fmt.Errorf("%w: %w", errTorn, err) }
		lines, err := events.NewExportReader(io.TeeReader(text, sum))
		if err != nil {
			return torn(err)
		}
		is.ExportHeader = lines.Header()
		for {
			r, err := lines.Next()
			switch {
			case errors.Is(err, io.EOF):
				is.Packed, is.Digest = packed.n, hex.EncodeToString(sum.Sum(nil))
				if is.Digest[:sumDigits] != s.sum || is.From != s.First || is.To != s.Last {
					return errTorn
				}
				return nil
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				return torn(err)
			case r.Seq < s.First || r.Seq > s.Last:
				return fmt.Errorf("%w: it has #%d", errTorn, r.Seq)
			}
			is.Messages++
			if err := each(&r); err != nil {
				return err
			}
		}
	})
	return is, err
}

// counted counts what is read.
type counted struct {
	from io.Reader
	n    int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n += int64(n)
	return n, err
}
