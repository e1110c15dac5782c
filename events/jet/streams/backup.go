package streams

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/task/value"
)

// A backup is a folder. Each stream has a folder in it, in the form of the nats command line. Beside
// them lie a manifest and the digests of all files, in the form of sha256sum; they are written last,
// so a folder without them is no backup.
const (
	manifestFile = "manifest.json"
	digestsFile  = "SHA256SUMS"
	streamFile   = "stream.tar.s2"
	configFile   = "backup.json"
	laterFile    = "later.jsonl"
)

// backupForm is the form of backups that this program writes, and the latest that it can read.
const backupForm = 1

// Manifest says what a backup holds.
type Manifest struct {
	Form    int    `json:"form"`
	Program string `json:"program"` // the version that wrote it
	NATS    string `json:"nats"`    // the version of the NATS server
	// What was acknowledged before Began is in the backup.
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"`
	// The layout of the installation.
	Replicas int    `json:"replicas"`
	AckWait  string `json:"ack_wait"`
	Sync     bool   `json:"sync_always"`
	// Streams are in the order in which they were saved.
	Streams []SavedStream `json:"streams"`
	// Consumers are those that hand out offers.
	Consumers []SavedConsumer `json:"consumers"`
}

// SavedStream is a stream in a backup.
type SavedStream struct {
	Name  string `json:"name"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Messages is how many were saved; -1 if the NATS server is older than 2.15.
	Messages int64 `json:"messages"`
	// Later is how many messages came while the backup was made, and were added to it.
	Later int   `json:"later,omitempty"`
	Bytes int64 `json:"bytes"` // of the files
}

// SavedConsumer is a consumer, and up to where all that it has handed out is done.
type SavedConsumer struct {
	Config map[string]json.RawMessage `json:"config"`
	Done   uint64                     `json:"done"`
}

// savedOrder is the order in which streams are saved.
//
// The log comes before all that its facts refer to, namely timers, files, records and output. What a
// fact refers to is stored before it, so it is in what is saved later. The other way round, the last
// facts would refer to nothing. Timers come after the log for another reason, too: the log counts how
// much it has had of them, and skips what has a lower number.
//
// Checkpoints are the exception, and come first. One that was acknowledged must be there, and a task
// that ends meanwhile takes its own along. They refer to records, which come later.
//
// A stream that keeps one message of a subject loses it to the next one. If that comes while the
// stream is saved, neither would be in the backup. So what came later is added, once the stream `then`
// is saved.
var savedOrder = []struct{ name, then string }{
	{names.StateStream, names.LogStream},
	{names.LogStream, ""},
	{names.TimerStream, ""},
	{names.FilesStream, names.FilesStream},
	{names.DataStream, ""},
	{names.OutputStream, ""},
	{names.BucketStream + names.DefsBucket, names.BucketStream + names.DefsBucket},
	{names.BucketStream + names.NodesBucket, ""}, // heartbeats expire
}

// Save writes a backup of all streams into a folder, which it makes, while everything runs. now is the
// log's time; said hears of each stream that is saved. After an error the folder is as it was before.
func Save(ctx context.Context, nc *nats.Conn, dir, program string, now func() time.Time, said func(SavedStream)) (m Manifest, err error) {
	made, err := vacantFolder(dir)
	if err != nil {
		return m, err
	}
	s := saver{nc: nc, dir: dir, digests: map[string]string{}}
	defer func() {
		if err != nil {
			s.takeBack(made)
		}
	}()
	m = Manifest{Form: backupForm, Program: program, NATS: nc.ConnectedServerVersion(), Began: now().UTC()}
	// Before the log, so that no offer counts as done of which the saved log does not say so.
	if m.Consumers, err = consumers(ctx, nc); err != nil {
		return m, err
	}
	for _, stream := range savedOrder {
		is, err := s.stream(ctx, stream.name)
		if err != nil {
			return m, err
		}
		m.Streams = append(m.Streams, is)
		for i, before := range savedOrder[:len(m.Streams)] {
			if of := &m.Streams[i]; before.then == stream.name {
				if err := s.later(ctx, of); err != nil {
					return m, err
				}
			}
		}
		said(m.Streams[len(m.Streams)-1])
	}
	layout := LayoutOf(s.log)
	m.Replicas, m.AckWait, m.Sync, m.Ended = s.log.Replicas, layout.AckWait.String(), layout.SyncAlways, now().UTC()
	if err := s.json(manifestFile, m); err != nil {
		return m, err
	}
	return m, s.seal()
}

// vacantFolder makes a folder, unless there is an empty one, and tells whether it did.
func vacantFolder(dir string) (made bool, err error) {
	there, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, os.MkdirAll(dir, 0o700)
	case err == nil && len(there) > 0:
		return false, fmt.Errorf("%w: %s", ErrOccupied, dir)
	}
	return false, err
}

// Errors of backups.
var (
	// ErrOccupied: the folder for a backup has something in it.
	ErrOccupied = errors.New("this folder is not empty")
	// ErrDamaged: a folder is no whole backup.
	ErrDamaged = errors.New("this is no whole backup")
)

// saver writes the files of a backup.
type saver struct {
	nc      *nats.Conn
	dir     string
	digests map[string]string // by the file
	log     jetstream.StreamConfig
}

// triesToSave is how often a stream is saved until it comes whole. A server that is stopped, or a log
// whose front goes meanwhile, ends one attempt.
const triesToSave = 5

// stream saves one stream.
func (s *saver) stream(ctx context.Context, name string) (is SavedStream, err error) {
	for range triesToSave {
		if is, err = s.try(ctx, name); err == nil || ctx.Err() != nil || request.Says(err, request.CodeNoSuchStream) || errors.As(err, new(*fs.PathError)) {
			break
		}
	}
	return is, err
}

// errShrunk: the front of the log has gone while it was saved. What lived there was written again
// further on, perhaps beyond the saved end.
var errShrunk = errors.New("its front was removed meanwhile")

func (s *saver) try(ctx context.Context, name string) (is SavedStream, err error) {
	var state jetstream.StreamState
	at := filepath.Join(name, streamFile)
	bytes, err := s.file(at, func(to io.Writer) error {
		return save(ctx, s.nc, name, func(of snapshot) (io.Writer, error) {
			if err := json.Unmarshal(of.State, &state); err != nil {
				return nil, err
			}
			if name == names.LogStream {
				text, err := json.Marshal(of.Config)
				if err == nil {
					err = json.Unmarshal(text, &s.log)
				}
				if err != nil {
					return nil, err
				}
			}
			return to, s.json(filepath.Join(name, configFile), snapshot{Config: of.Config, State: of.State})
		})
	})
	if err != nil {
		return is, err
	}
	is = SavedStream{Name: name, First: state.FirstSeq, Last: state.LastSeq, Bytes: bytes}
	file, err := os.Open(filepath.Join(s.dir, at))
	if err != nil {
		return is, err
	}
	defer file.Close()
	if is.Messages, err = countMessages(file); err != nil {
		return is, fmt.Errorf("read the stream %s: %w", name, err)
	}
	if name != names.LogStream {
		return is, nil
	}
	var now struct{ State jetstream.StreamState }
	if err = insist(ctx, s.nc, names.APIInfo+name, nil, &now); err == nil && now.State.FirstSeq > is.First {
		err = fmt.Errorf("read the stream %s: %w", name, errShrunk)
	}
	return is, err
}

// laterMessage is a message that came while the backup was made.
type laterMessage struct {
	Seq     uint64      `json:"seq"`
	Subject string      `json:"subject"`
	Header  nats.Header `json:"header,omitempty"`
	Data    []byte      `json:"data,omitempty"`
}

// fewLater is how many of them are asked for at once.
const fewLater = 500

// later adds what a stream has had since. It reads until there is no more, not to the end that the
// stream had at first: a value that has been replaced once may be replaced again.
func (s *saver) later(ctx context.Context, is *SavedStream) error {
	bytes, err := s.file(filepath.Join(is.Name, laterFile), func(to io.Writer) error {
		js, err := jetstream.New(s.nc)
		if err != nil {
			return err
		}
		out, at := json.NewEncoder(to), is.Last
		for vain := 0; ; vain++ {
			before := at
			err = s.laterThan(ctx, js, is, &at, out.Encode)
			if at > before {
				vain = 0
			}
			if err == nil || ctx.Err() != nil || vain == triesToSave || errors.As(err, new(*fs.PathError)) {
				return err
			}
		}
	})
	is.Bytes += bytes
	if err != nil {
		return fmt.Errorf("read the stream %s: %w", is.Name, err)
	}
	return nil
}

// errLostOnTheWay: it is read again, by another consumer.
var errLostOnTheWay = errors.New("a message was lost on the way")

// laterThan reads on behind a sequence, and keeps there how far it came.
func (s *saver) laterThan(ctx context.Context, js jetstream.JetStream, is *SavedStream, at *uint64, keep func(any) error) error {
	c, err := js.CreateConsumer(ctx, is.Name, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: *at + 1,
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: answered, MemoryStorage: true, Replicas: 1})
	if err != nil {
		return err
	}
	defer func() { _ = js.DeleteConsumer(ctx, is.Name, c.CachedInfo().Name) }() // else it goes by itself
	for n := uint64(0); ; {
		batch, err := c.FetchNoWait(fewLater)
		if err != nil {
			return err
		}
		some := false
		for m := range batch.Messages() {
			about, err := m.Metadata()
			if n++; err == nil && about.Sequence.Consumer != n {
				err = errLostOnTheWay
			}
			if err == nil {
				err = keep(laterMessage{about.Sequence.Stream, m.Subject(), m.Headers(), m.Data()})
			}
			if err != nil {
				return err
			}
			some, *at = true, about.Sequence.Stream
			is.Later++
		}
		if err := batch.Error(); err != nil {
			return err
		}
		if some {
			continue
		}
		// A replica that is behind has less.
		err = insist(ctx, s.nc, names.APIGet+is.Name, map[string]any{"seq": *at + 1, "next_by_subj": ">"}, nil)
		if request.Says(err, request.CodeNoMessage) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// listConsumers is the request for all consumers of a stream. No other place asks for it: it takes the
// longer the more there are. A backup has those of others, too.
const listConsumers = "$JS.API.CONSUMER.LIST."

// consumers returns the durable consumers of the log.
func consumers(ctx context.Context, nc *nats.Conn) (all []SavedConsumer, err error) {
	for {
		var page struct {
			Total     int
			Consumers []struct {
				Config   map[string]json.RawMessage
				AckFloor struct {
					Stream uint64 `json:"stream_seq"`
				} `json:"ack_floor"`
			}
			Missing []string
		}
		if err := insist(ctx, nc, listConsumers+names.LogStream, map[string]any{"offset": len(all)}, &page); err != nil {
			return nil, fmt.Errorf("list the consumers of %s: %w", names.LogStream, err)
		}
		if len(page.Missing) > 0 {
			return nil, fmt.Errorf("list the consumers of %s: nobody answers for %s", names.LogStream, strings.Join(page.Missing, ", "))
		}
		for _, c := range page.Consumers {
			all = append(all, SavedConsumer{c.Config, c.AckFloor.Stream})
		}
		if len(page.Consumers) == 0 || len(all) >= page.Total {
			break
		}
	}
	return slices.DeleteFunc(all, func(c SavedConsumer) bool { return c.Config["durable_name"] == nil }), nil
}

// file writes a file of the backup to the disk, and keeps its digest.
func (s *saver) file(name string, write func(io.Writer) error) (bytes int64, err error) {
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	digest := sha256.New()
	buffered := bufio.NewWriterSize(io.MultiWriter(f, digest), 1<<20)
	if err = write(buffered); err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		bytes, err = f.Seek(0, io.SeekEnd)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		s.digests[filepath.ToSlash(name)] = hex.EncodeToString(digest.Sum(nil))
	}
	return bytes, err
}

func (s *saver) json(name string, content any) error {
	_, err := s.file(name, func(to io.Writer) error {
		e := json.NewEncoder(to)
		e.SetIndent("", "  ")
		return e.Encode(content)
	})
	return err
}

// seal writes the digests, and makes sure that the disk has all names.
func (s *saver) seal() error {
	_, err := s.file(digestsFile, func(to io.Writer) (err error) {
		for _, name := range slices.Sorted(maps.Keys(s.digests)) {
			if _, err = fmt.Fprintf(to, "%s  %s\n", s.digests[name], name); err != nil {
				break
			}
		}
		return err
	})
	for _, stream := range savedOrder {
		err = errors.Join(err, syncFolder(filepath.Join(s.dir, stream.name)))
	}
	return errors.Join(err, syncFolder(s.dir))
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// takeBack removes what was written, so that a full disk has its room again.
func (s *saver) takeBack(made bool) {
	for _, stream := range savedOrder {
		_ = os.RemoveAll(filepath.Join(s.dir, stream.name))
	}
	for _, name := range []string{manifestFile, digestsFile} {
		_ = os.Remove(filepath.Join(s.dir, name))
	}
	if made {
		_ = os.Remove(s.dir)
	}
}

// ReadBackup reads a backup whole and returns its manifest. The error wraps [ErrDamaged] if a file is
// missing, cut, changed or another backup's, and [fs.ErrNotExist] if there is no folder.
func ReadBackup(dir string) (m Manifest, err error) {
	damaged := func(format string, args ...any) (Manifest, error) {
		return m, fmt.Errorf("%s: %w: %w", dir, ErrDamaged, fmt.Errorf(format, args...))
	}
	if _, err := os.Stat(dir); err != nil {
		return m, err
	}
	text, err := os.ReadFile(filepath.Join(dir, digestsFile))
	if err != nil {
		return damaged("it was not finished, or lost its digests: %w", err)
	}
	digests := map[string]string{}
	for line := range strings.Lines(string(text)) {
		digest, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || !strings.HasSuffix(line, "\n") {
			return damaged("%s is cut", digestsFile)
		}
		digests[name] = digest
	}
	read := func(name string) error {
		is, err := digestOf(filepath.Join(dir, filepath.FromSlash(name)))
		if err == nil && is != digests[name] {
			err = fmt.Errorf("%s is not as it was written: it is damaged, or of another backup", name)
		}
		return err
	}
	if err := read(manifestFile); err != nil {
		return damaged("%w", err)
	}
	if text, err = os.ReadFile(filepath.Join(dir, manifestFile)); err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return damaged("%w", value.Plainly(err))
	}
	if m.Form > backupForm {
		return m, fmt.Errorf("%s: millrace %s wrote it in a form that this version does not know: restore it with that one, or a later one", dir, m.Program)
	}
	if len(m.Streams) != len(savedOrder) {
		return damaged("%s has %d streams, and not %d", manifestFile, len(m.Streams), len(savedOrder))
	}
	for i, is := range m.Streams {
		if is.Name != savedOrder[i].name {
			return damaged("%s has the stream %s in place of %s", manifestFile, is.Name, savedOrder[i].name)
		}
		files := []string{configFile, streamFile}
		if savedOrder[i].then != "" {
			files = append(files, laterFile)
		}
		for _, file := range files {
			if err := read(is.Name + "/" + file); err != nil {
				return damaged("%w", err)
			}
		}
	}
	return m, nil
}

func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// trimmed tells whether a raw text of JSON is one of some words.
func trimmed(raw json.RawMessage, words ...string) bool {
	return slices.Contains(words, string(bytes.Trim(raw, `" `)))
}
