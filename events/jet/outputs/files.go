package outputs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	"millrace/task"
)

// File contents lie in a stream of their own, one message per chunk on a subject that bears its
// digest, and not in an object store: an object costs at least two messages, a lookup before and a
// consumer to read it. Files of 4 kB took 12 times as long to store that way and 39 times as long
// to read (BenchmarkObjects: 776 µs and 63 µs, 3.1 ms and 79 µs, on a busy machine, side by side).

// Files stores and reads contents, versions and artifacts over a connection.
type Files struct{ *request.Link }

var _ files.Store = (*Files)(nil)

// Put implements [files.Store].
func (s *Files) Put(ctx context.Context, d files.Digest, chunk []byte) error {
	if err := s.putFile(ctx, &nats.Msg{Subject: names.ChunkPrefix + string(d), Data: chunk}); err != nil {
		return fmt.Errorf("store content %s: %w", d.Short(), err)
	}
	return nil
}

// putFile stores a message of the files' stream. Storing the same message again is harmless, so it
// is sent again until there is an answer.
func (s *Files) putFile(ctx context.Context, m *nats.Msg) error {
	_, err := s.put(ctx, m)
	return filesTrouble(err)
}

// putPatience is how long a message is sent again without an answer.
const putPatience = time.Minute

func (s *Files) put(ctx context.Context, m *nats.Msg) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, putPatience)
	defer cancel()
	return s.Insist(ctx, m)
}

// errNoFiles: the server has no stream for files.
var errNoFiles = errors.New("this server holds no files of Millrace yet: start its `millrace server` or a worker of this version once")

// filesTrouble turns the server's errors into advice.
func filesTrouble(err error) error {
	word, full := request.Full(err)
	switch {
	case err == nil:
		return nil
	case full:
		return fmt.Errorf("%w (it says %q)", files.ErrFull, word)
	case request.Says(err, request.CodeNoSuchStream):
		return errNoFiles
	case errors.Is(err, events.ErrNoStream):
		return fmt.Errorf("%w, or the leader of stream %s is changing", errNoFiles, names.FilesStream)
	case request.Missing(err):
		return errNoFiles
	case errors.Is(err, events.ErrTooLarge):
		return fmt.Errorf("%w: set max_payload of the NATS server to 1MB or more", err)
	}
	return err
}

// Get implements [files.Store]. It asks any replica, and the leader if that one does not have the
// chunk.
func (s *Files) Get(ctx context.Context, d files.Digest) ([]byte, error) {
	b, found, err := s.getFile(ctx, names.ChunkPrefix+string(d))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read content %s: %w", d.Short(), filesTrouble(err))
	case !found:
		return nil, fmt.Errorf("%w: %s is gone from stream %s: push the folder again, which stores what is missing", files.ErrNoChunk, d.Short(), names.FilesStream)
	}
	if err := d.Check(b); err != nil {
		return nil, s.damaged(ctx, d, err)
	}
	return b, nil
}

// damagedTTL is how long a note about damaged contents is kept.
const damagedTTL = 30 * 24 * time.Hour

// damaged records that a chunk was replaced by other contents, so that the next push stores it
// again.
func (s *Files) damaged(ctx context.Context, d files.Digest, why error) error {
	note := &nats.Msg{Subject: names.DamagedPrefix + string(d), Header: request.TTL(damagedTTL)}
	if _, err := s.Pub.Publish(ctx, note); err != nil {
		return fmt.Errorf("%w; that cannot be noted: %w", why, err)
	}
	return fmt.Errorf("%w: it was replaced in stream %s: push the folder again, which stores it anew", why, names.FilesStream)
}

// undamaged removes from there the chunks that a reader has found damaged since they were stored.
func (s *Files) undamaged(ctx context.Context, there map[string]bool) error {
	noted, err := s.fileSubjects(ctx, names.DamagedPrefix+"*")
	if err != nil {
		return err
	}
	for _, subject := range noted {
		d := strings.TrimPrefix(subject, names.DamagedPrefix)
		if !there[d] {
			continue
		}
		note, found, err := s.LeaderGetFrom(ctx, names.FilesStream, map[string]any{"last_by_subj": subject})
		if err != nil {
			return err
		}
		chunk, _, err := s.LeaderGetFrom(ctx, names.FilesStream, map[string]any{"last_by_subj": names.ChunkPrefix + d})
		if err != nil {
			return err
		}
		if found && chunk.Seq < note.Seq {
			there[d] = false
		}
	}
	return nil
}

// filePatience is how long a read is repeated without an answer.
const filePatience = 30 * time.Second

func (s *Files) getFile(ctx context.Context, subject string) (body []byte, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, filePatience)
	defer cancel()
	err = s.Patiently(ctx, func(ctx context.Context) error {
		m, err := s.Request(ctx, names.APIDirect+names.FilesStream+"."+subject, nil)
		if err != nil {
			return err
		}
		if request.Added(m, jetstream.SequenceHeader) != "" {
			body, found = m.Data, true
			return nil
		}
		if m.Header.Get("Status") == "503" {
			return events.ErrNoStream
		}
		return nil
	})
	if err != nil || found {
		return body, found, err
	}
	m, found, err := s.LeaderGetFrom(ctx, names.FilesStream, map[string]any{"last_by_subj": subject})
	return m.Data, found, err
}

// few is the number of subjects up to which they are asked for one by one; a list of all subjects
// costs as much as some hundred questions, and more the more there are.
const few = 256

// Missing implements [files.Store].
func (s *Files) Missing(ctx context.Context, all []files.Digest) ([]files.Digest, error) {
	there := make(map[string]bool, len(all))
	err := s.present(ctx, all, there)
	if err == nil {
		err = s.undamaged(ctx, there)
	}
	if err != nil {
		return nil, fmt.Errorf("look which content is there: %w", filesTrouble(err))
	}
	var missing []files.Digest
	for _, d := range all {
		if !there[string(d)] {
			missing = append(missing, d)
		}
	}
	return missing, nil
}

func (s *Files) present(ctx context.Context, all []files.Digest, there map[string]bool) error {
	if len(all) == 0 {
		return nil
	}
	if len(all) > few {
		subjects, err := s.fileSubjects(ctx, names.ChunkPrefix+"*")
		for _, subject := range subjects {
			there[strings.TrimPrefix(subject, names.ChunkPrefix)] = true
		}
		return err
	}
	found := make([]bool, len(all))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, d := range all {
		g.Go(func() error {
			subjects, err := s.fileSubjects(ctx, names.ChunkPrefix+string(d))
			found[i] = len(subjects) > 0
			return err
		})
	}
	err := g.Wait()
	for i, d := range all {
		there[string(d)] = found[i]
	}
	return err
}

// fileSubjects lists the subjects of the files' stream that match a filter, as its leader has them.
func (s *Files) fileSubjects(ctx context.Context, filter string) ([]string, error) {
	var all []string
	for {
		body, err := json.Marshal(map[string]any{"subjects_filter": filter, "offset": len(all)})
		if err != nil {
			return nil, err
		}
		var info struct {
			Total int                  `json:"total"`
			Error *request.ServerError `json:"error"`
			State struct {
				Subjects map[string]uint64 `json:"subjects"`
			} `json:"state"`
		}
		err = s.Patiently(ctx, func(ctx context.Context) error {
			m, err := s.Request(ctx, names.APIInfo+names.FilesStream, body)
			if err != nil {
				return err
			}
			info.Error, info.State.Subjects = nil, nil
			if err := json.Unmarshal(m.Data, &info); err != nil {
				return err
			}
			if info.Error != nil {
				return info.Error
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for subject := range info.State.Subjects {
			all = append(all, subject)
		}
		if len(info.State.Subjects) == 0 || len(all) >= info.Total {
			return all, nil
		}
	}
}

// protection is how long a version that is being pushed, or that a task was just submitted with, is
// safe from gc.
const protection = 24 * time.Hour

// Protect implements [files.Store]. It waits for a sweep in progress: what that sweep removes is
// missing afterwards, and the next sweep knows of the version.
func (s *Files) Protect(ctx context.Context, v files.Version) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	m := &nats.Msg{
		Subject: names.ProtectPrefix + string(v.Digest),
		Data:    body,
		Header:  nats.Header{jetstream.MsgTTLHeader: {protection.String()}},
	}
	mine, err := s.put(ctx, m)
	if err != nil {
		return fmt.Errorf("protect version %s: %w", v.Digest.Short(), filesTrouble(err))
	}
	for {
		mark, age, err := s.sweepMark(ctx)
		if err != nil {
			return fmt.Errorf("protect version %s: %w", v.Digest.Short(), filesTrouble(err))
		}
		if !holdsUp(mark, mine, age) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for `millrace files gc`: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Commit implements [files.Store]. A known version stays as it is.
func (s *Files) Commit(ctx context.Context, v files.Version) error {
	if err := v.Validate(); err != nil {
		return err
	}
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	chain := s.Value(names.FilesStream, names.VersionPrefix+string(v.Digest))
	chain.Once = true
	chain.Write = func(ctx context.Context, m *nats.Msg, _ uint64) (uint64, error) {
		return s.put(ctx, m)
	}
	_, err = chain.DecideFrom(ctx, nil, 0, func(*request.Message) (*nats.Msg, bool, error) {
		return &nats.Msg{
			Subject: names.VersionPrefix + string(v.Digest),
			Data:    body,
			Header:  nats.Header{request.ExpectedHeader: {"0"}},
		}, true, nil
	})
	if err != nil {
		return fmt.Errorf("store version %s: %w", v.Digest.Short(), filesTrouble(err))
	}
	return nil
}

// Version implements [files.Store].
func (s *Files) Version(ctx context.Context, d files.Digest) (files.Version, error) {
	var v files.Version
	if !d.Valid() {
		return v, fmt.Errorf("%w: %q", files.ErrNoVersion, d)
	}
	body, found, err := s.getFile(ctx, names.VersionPrefix+string(d))
	switch {
	case err != nil:
		return v, fmt.Errorf("read version %s: %w", d.Short(), filesTrouble(err))
	case !found:
		return v, fmt.Errorf("%w: %s", files.ErrNoVersion, d.Short())
	}
	return v, readVersion(body, d, &v)
}

func readVersion(body []byte, d files.Digest, v *files.Version) error {
	err := json.Unmarshal(body, v)
	if err == nil && v.Digest != d {
		err = errors.New("it is about another one")
	}
	if err != nil {
		return fmt.Errorf("version %s cannot be read: %w", d.Short(), err)
	}
	return nil
}

// Versions lists the digests of all versions that begin with prefix.
func (s *Files) Versions(ctx context.Context, prefix string) ([]files.Digest, error) {
	subjects, err := s.fileSubjects(ctx, names.VersionPrefix+"*")
	if err != nil {
		return nil, fmt.Errorf("list versions: %w", filesTrouble(err))
	}
	var all []files.Digest
	for _, subject := range subjects {
		if d := strings.TrimPrefix(subject, names.VersionPrefix); strings.HasPrefix(d, prefix) {
			all = append(all, files.Digest(d))
		}
	}
	return all, nil
}

// leftSubject is the subject of an attempt's artifacts.
func leftSubject(id task.ID, epoch uint64) string {
	return names.LeftPrefix + string(id) + "." + strconv.FormatUint(epoch, 10)
}

// KeepArtifacts records the artifacts of an attempt.
func (s *Files) KeepArtifacts(ctx context.Context, a task.Left) error {
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if err := s.putFile(ctx, &nats.Msg{Subject: leftSubject(a.Task, a.Epoch), Data: body}); err != nil {
		return fmt.Errorf("record the artifacts of task %s: %w", a.Task, err)
	}
	return nil
}

// Artifacts lists the artifacts of a task's attempts, in order; those of all tasks if id is "".
func (s *Files) Artifacts(ctx context.Context, id task.ID) ([]task.Left, error) {
	filter := names.LeftPrefix + "*.*"
	if id != "" {
		filter = names.LeftPrefix + string(id) + ".*"
	}
	stream, err := s.JS.Stream(ctx, names.FilesStream)
	if err != nil {
		return nil, filesTrouble(err)
	}
	var all []task.Left
	err = request.LastOfAll(ctx, stream, filter, func(m jetstream.Msg, _ *jetstream.MsgMetadata) error {
		var a task.Left
		if json.Unmarshal(m.Data(), &a) == nil { // else it is a foreign message
			all = append(all, a)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read artifacts: %w", err)
	}
	slices.SortFunc(all, func(a, b task.Left) int { return int(int64(a.Epoch) - int64(b.Epoch)) })
	return all, nil
}

// ForgetArtifacts removes a record that [Files.KeepArtifacts] made; the contents stay until gc.
func (s *Files) ForgetArtifacts(ctx context.Context, a task.Left) error {
	m, found, err := s.LeaderGetFrom(ctx, names.FilesStream, map[string]any{"last_by_subj": leftSubject(a.Task, a.Epoch)})
	if err != nil || !found {
		return filesTrouble(err)
	}
	return s.removeFile(ctx, m.Seq)
}
