package outputs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/events/jet/request"
)

// Segments keeps segments of an archive in an object store of the NATS server that holds the log.
type Segments struct {
	*request.Link
	Bucket string
	// Replicas is on how many servers the store lies that Put makes if there is none.
	Replicas int
}

// errNoBucket says of an error that the server has no such object store.
func (s *Segments) errNoBucket(err error) error {
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return fmt.Errorf("%w: this NATS server has no archive in an object store %s", fs.ErrNotExist, s.Bucket)
	}
	return err
}

func (s *Segments) store(ctx context.Context) (jetstream.ObjectStore, error) {
	b, err := s.JS.ObjectStore(ctx, s.Bucket)
	return b, s.errNoBucket(err)
}

// List returns the names of what lies there, with sizes in bytes.
func (s *Segments) List(ctx context.Context) (map[string]int64, error) {
	b, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	all, err := b.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, err
	}
	names := make(map[string]int64, len(all))
	for _, is := range all {
		names[is.Name] = int64(is.Size)
	}
	return names, nil
}

// Open opens what lies there under a name. The reader fails at its end if that is not what was stored.
func (s *Segments) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	b, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	is, err := b.Get(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		err = fmt.Errorf("%w: %s", fs.ErrNotExist, name)
	}
	if err != nil {
		return nil, err
	}
	return is, nil
}

// Put stores what write writes, under the name that it returns, and makes the store if there is none. It
// goes into a file first: an object's name is sent before its content.
func (s *Segments) Put(ctx context.Context, write func(io.Writer) (name string, err error)) error {
	b, err := s.JS.ObjectStore(ctx, s.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		b, err = s.JS.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: s.Bucket, Description: "Millrace: what the horizon of the log has passed", Storage: jetstream.FileStorage, Replicas: s.Replicas})
	}
	if err == nil {
		err = s.sweep(ctx, b, abandoned)
	}
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "millrace-segment-")
	if err != nil {
		return err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil { // it ends with this process
		return err
	}
	out := bufio.NewWriterSize(file, 1<<20)
	name, err := write(out)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err == nil {
		if _, err = b.Put(ctx, jetstream.ObjectMeta{Name: name}, file); err != nil {
			err = errors.Join(err, s.unname(context.WithoutCancel(ctx), b, name))
		}
	}
	return err
}

// unname removes a name whose content is not there. JetStream's client sends the name without waiting for
// the content, and removes the content alone if the server refused a part of it.
func (s *Segments) unname(ctx context.Context, b jetstream.ObjectStore, name string) error {
	is, err := b.GetInfo(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	stream, err := s.JS.Stream(ctx, names.ObjectStream+s.Bucket)
	if err != nil {
		return err
	}
	parts := names.ObjectSubject + s.Bucket + ".C." + is.NUID
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(parts))
	if err != nil {
		return err
	}
	if info.State.Subjects[parts] >= uint64(is.Chunks) {
		return nil // another server has stored it meanwhile
	}
	return b.Delete(ctx, name)
}

// abandoned is how much older than the last message in the store the parts of an object without a name
// are if their process has ended: an upload is not silent for so long.
const abandoned = time.Hour

// sweep removes what processes that have ended left unfinished.
func (s *Segments) sweep(ctx context.Context, b jetstream.ObjectStore, abandoned time.Duration) error {
	stream, err := s.JS.Stream(ctx, names.ObjectStream+s.Bucket)
	if err != nil {
		return err
	}
	parts := names.ObjectSubject + s.Bucket + ".C."
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(parts+">"))
	if err != nil {
		return err
	}
	all, err := b.List(ctx) // after the parts: what was finished since has a name
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return err
	}
	for _, is := range all {
		delete(info.State.Subjects, parts+is.NUID)
	}
	for subject := range info.State.Subjects {
		last, err := stream.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err == nil && last.Time.Before(info.State.LastTime.Add(-abandoned)) {
			err = stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Remove removes what lies there under a name.
func (s *Segments) Remove(ctx context.Context, name string) error {
	b, err := s.store(ctx)
	if err != nil {
		return err
	}
	return b.Delete(ctx, name)
}
