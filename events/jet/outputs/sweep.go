package outputs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/internal/files"
)

// A sweep removes the chunks that no needed version has. It must never remove a chunk that a
// concurrent push relies on. The two notice each other like this: a push first protects its
// version, then waits until no sweep's mark is there, and only then asks which chunks exist. A
// sweep sets its mark, then reads which versions are protected or wanted, then removes chunks, and
// takes the mark away. So either the sweep sees the protection, or the push sees the mark, which
// then lies before the protection. The mark has a TTL, and a sweep that has not ended well before
// it expires starts again. So a mark that is older than that, by the server's clock, counts for
// nothing, whatever its headers say.

const (
	markTTL   = time.Minute
	markValid = 30 * time.Second
)

// ErrSweeping: another sweep is removing files at the moment.
var ErrSweeping = errors.New("another `millrace files gc` is under way: wait until it has ended, or a minute if it was killed")

// Swept says what a sweep removed, or would remove.
type Swept struct {
	// Versions are the removed versions; Chunks counts the removed pieces of contents, and Bytes
	// their bytes.
	Versions []files.Digest `json:"versions"`
	Chunks   int            `json:"chunks"`
	Bytes    int64          `json:"bytes"`
	// Kept counts the needed versions.
	Kept int `json:"kept"`
}

// stored is a message of the files' stream without its body.
type stored struct {
	seq    uint64
	digest files.Digest
	size   int64
}

// SweepFiles removes versions and chunks that were stored before a time and that no wanted version
// needs; with dry it only reports them. It may take long; what it has done when ctx ends stays
// done. The error wraps [ErrSweeping] if another sweep is in progress.
func (s *Files) SweepFiles(ctx context.Context, before time.Time, dry bool, wanted func(context.Context) (map[files.Digest]bool, error)) (Swept, error) {
	w := sweep{s: s, dry: dry, wanted: wanted, manifests: map[files.Digest][]files.Digest{}}
	var err error
	if w.chunks, err = s.storedBefore(ctx, names.ChunkPrefix, before); err != nil {
		return w.done, err
	}
	if w.versions, err = s.storedBefore(ctx, names.VersionPrefix, before); err != nil {
		return w.done, err
	}
	w.done.Versions = []files.Digest{}
	for more := true; more && err == nil; {
		more, err = w.slice(ctx)
	}
	return w.done, filesTrouble(err)
}

// storedBefore lists the messages of one kind that were stored before a time.
func (s *Files) storedBefore(ctx context.Context, prefix string, before time.Time) ([]stored, error) {
	var all []stored
	err := s.Headers(ctx, names.FilesStream, prefix+"*", func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		if meta.Timestamp.Before(before) {
			size, _ := strconv.ParseInt(m.Headers().Get("Nats-Msg-Size"), 10, 64) // only counted
			all = append(all, stored{meta.Sequence.Stream, files.Digest(strings.TrimPrefix(m.Subject(), prefix)), size})
		}
		return nil
	})
	return all, filesTrouble(err)
}

type sweep struct {
	s                *Files
	dry              bool
	wanted           func(context.Context) (map[files.Digest]bool, error)
	versions, chunks []stored // not looked at yet
	// manifests are the chunk lists of the versions read so far.
	manifests map[files.Digest][]files.Digest
	done      Swept
}

// slice removes what it can while its mark is valid, and tells whether there is more.
func (w *sweep) slice(ctx context.Context) (more bool, err error) {
	var until time.Time
	if !w.dry {
		until = time.Now().Add(markValid)
		unmark, err := w.s.mark(ctx)
		if err != nil {
			return false, err
		}
		defer unmark()
	}
	keep, needed, err := w.needed(ctx)
	if err != nil {
		return false, err
	}
	w.done.Kept = len(keep)
	remove := func(all []stored, spare func(files.Digest) bool, each func(stored)) ([]stored, error) {
		for len(all) > 0 {
			if !w.dry && time.Now().After(until) {
				return all, nil
			}
			some := all[:min(len(all), 1000)]
			all = all[len(some):]
			if err := w.remove(ctx, some, spare, each); err != nil {
				return all, err
			}
		}
		return nil, nil
	}
	w.versions, err = remove(w.versions, func(d files.Digest) bool { return keep[d] }, func(m stored) { w.done.Versions = append(w.done.Versions, m.digest) })
	if err != nil || len(w.versions) > 0 {
		return true, err
	}
	w.chunks, err = remove(w.chunks, func(d files.Digest) bool { return needed[d] }, func(m stored) {
		w.done.Chunks++
		w.done.Bytes += m.size
	})
	return len(w.chunks) > 0, err
}

// needed returns the versions that are wanted or protected, and all chunks of those.
func (w *sweep) needed(ctx context.Context) (keep, needed map[files.Digest]bool, err error) {
	protected, err := w.s.protected(ctx)
	if err != nil {
		return nil, nil, err
	}
	if keep, err = w.wanted(ctx); err != nil {
		return nil, nil, err
	}
	for d := range protected {
		keep[d] = true
	}
	needed = map[files.Digest]bool{}
	for d := range keep {
		chunks, ok := w.manifests[d]
		if !ok {
			v, known := protected[d]
			if !known {
				v, err = w.s.Version(ctx, d)
				if errors.Is(err, files.ErrNoVersion) {
					delete(keep, d) // a wanted version that does not exist protects nothing
					continue
				}
			}
			if err == nil {
				chunks, err = w.s.chunksOf(ctx, v)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("nothing more is removed, for it cannot be known what version %s needs: %w", d.Short(), err)
			}
			w.manifests[d] = chunks
		}
		for _, c := range chunks {
			needed[c] = true
		}
	}
	return keep, needed, nil
}

func (s *Files) chunksOf(ctx context.Context, v files.Version) ([]files.Digest, error) {
	m, err := files.ManifestOf(ctx, s, v)
	if err != nil {
		return nil, err
	}
	sizes := m.Chunks()
	all := make([]files.Digest, 0, len(sizes)+len(v.Chunks))
	for d := range sizes {
		all = append(all, d)
	}
	return append(all, v.Chunks...), nil
}

// protected returns the versions that are being pushed, or were just asked for.
func (s *Files) protected(ctx context.Context) (map[files.Digest]files.Version, error) {
	subjects, err := s.fileSubjects(ctx, names.ProtectPrefix+"*")
	if err != nil {
		return nil, err
	}
	all := map[files.Digest]files.Version{}
	for _, subject := range subjects {
		m, found, err := s.LeaderGetFrom(ctx, names.FilesStream, map[string]any{"last_by_subj": subject})
		if err != nil {
			return nil, err
		}
		d := files.Digest(strings.TrimPrefix(subject, names.ProtectPrefix))
		var v files.Version
		// Else it has expired, or is a foreign message.
		if found && readVersion(m.Data, d, &v) == nil {
			all[d] = v
		}
	}
	return all, nil
}

// sweepMark returns the sequence of the mark of a sweep, 0 for none, and its age by the clock of
// the server that stored it.
func (s *Files) sweepMark(ctx context.Context) (seq uint64, age time.Duration, err error) {
	m, found, err := s.LeaderGetFrom(ctx, names.FilesStream, map[string]any{"last_by_subj": names.SweepSubject})
	if err != nil || !found {
		return 0, 0, err
	}
	stream, err := s.JS.Stream(ctx, names.FilesStream)
	if err != nil {
		return 0, 0, err
	}
	return m.Seq, stream.CachedInfo().TimeStamp.Sub(m.Time), nil
}

// holdsUp tells whether a push must wait for the sweep with this mark (0 for none) once its
// protection is stored. A sweep that began after the protection has read it. A mark older than any
// sweep's was not set by a sweep.
func holdsUp(mark, protection uint64, age time.Duration) bool {
	return mark != 0 && mark < protection && age < markTTL
}

// mark declares that files are being removed. It replaces a mark that is older than any sweep's,
// for that one may have no TTL.
func (s *Files) mark(ctx context.Context) (unmark func(), err error) {
	last, age, err := s.sweepMark(ctx)
	if err != nil {
		return nil, err
	}
	if holdsUp(last, math.MaxUint64, age) {
		return nil, ErrSweeping
	}
	m := &nats.Msg{
		Subject: names.SweepSubject,
		Data:    []byte(events.NewID(s.Now())),
		Header:  nats.Header{jetstream.MsgTTLHeader: {markTTL.String()}},
	}
	chain := s.Value(names.FilesStream, names.SweepSubject)
	chain.Once = true
	d, err := chain.DecideFrom(ctx, nil, last, func(*request.Message) (*nats.Msg, bool, error) { return m, true, nil })
	if err != nil {
		return nil, err
	}
	if !d.Done() {
		return nil, ErrSweeping
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), request.ReadTimeout)
		defer cancel()
		_ = s.removeFile(ctx, d.End) // else it expires by itself
	}, nil
}

// remove removes messages, except those whose content is spared.
func (w *sweep) remove(ctx context.Context, all []stored, spare func(files.Digest) bool, each func(stored)) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for _, m := range all {
		if spare(m.digest) {
			continue
		}
		each(m)
		if !w.dry {
			// By sequence: contents that were stored again since have a new one, and stay.
			g.Go(func() error { return w.s.removeFile(ctx, m.seq) })
		}
	}
	return g.Wait()
}

func (s *Files) removeFile(ctx context.Context, seq uint64) error {
	body, err := json.Marshal(map[string]any{"seq": seq, "no_erase": true})
	if err != nil {
		return err
	}
	return s.Patiently(ctx, func(ctx context.Context) error {
		m, err := s.Request(ctx, names.APIErase+names.FilesStream, body)
		if err != nil {
			return err
		}
		var answer struct {
			Error *request.ServerError `json:"error"`
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			return err
		}
		if answer.Error != nil && !gone(answer.Error) {
			return answer.Error
		}
		return nil
	})
}

// gone tells whether a message could not be removed because it does not exist.
func gone(err *request.ServerError) bool {
	return err.ErrCode == request.CodeNoMessage || err.ErrCode == request.CodeNoSequence || err.ErrCode == request.CodeDeleteFailed && strings.Contains(err.Description, "no message")
}
