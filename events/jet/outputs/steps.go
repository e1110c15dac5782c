package outputs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"millrace/events/jet/names"
	"millrace/internal/files"
	"millrace/task"
)

// stepParallel is how many parts of a step's result are sent or read at once.
const stepParallel = 8

// stepSubject is where a part of a step's result lies. It names the task, so that what no fact came to refer
// to, because its worker died first, goes with the task as the rest does.
func stepSubject(id task.ID, digest string, part int) string {
	return names.StepPrefix + string(id) + "." + digest + "." + strconv.Itoa(part)
}

// SaveStep stores the result of a step with a digest apart from the log. It waits until all is stored; storing
// it again is harmless. The error wraps [files.ErrFull] if a limit of the server is reached.
func (s *Files) SaveStep(ctx context.Context, id task.ID, digest string, result []byte) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(stepParallel)
	for part := range stepParts(len(result)) {
		from := part * files.ChunkSize
		g.Go(func() error {
			return s.putFile(ctx, &nats.Msg{Subject: stepSubject(id, digest, part), Data: result[from:min(from+files.ChunkSize, len(result))]})
		})
	}
	return g.Wait()
}

func stepParts(size int) int { return (size + files.ChunkSize - 1) / files.ChunkSize }

// errNoResult: what a step gave is stored no more.
var errNoResult = errors.New("it is gone from stream " + names.FilesStream)

// StepResult returns what [Files.SaveStep] has stored. The error says if it is gone.
func (s *Files) StepResult(ctx context.Context, id task.ID, digest string, size int) ([]byte, error) {
	if !files.Digest(digest).Valid() || size < 0 || size > task.MaxStepApart {
		return nil, fmt.Errorf("there is no result %.12q of %d bytes", digest, size)
	}
	result := make([]byte, size)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(stepParallel)
	for part := range stepParts(size) {
		into := result[part*files.ChunkSize:]
		into = into[:min(len(into), files.ChunkSize)]
		g.Go(func() error {
			body, found, err := s.getFile(ctx, stepSubject(id, digest, part))
			switch {
			case err != nil:
				return filesTrouble(err)
			case !found || len(body) != len(into):
				return errNoResult
			}
			copy(into, body)
			return nil
		})
	}
	return result, g.Wait()
}

// ForgetSteps removes the results of steps that were stored before a time.
func (s *Files) ForgetSteps(ctx context.Context, before time.Time) error {
	return forget(ctx, s.Link, names.FilesStream, names.StepPrefix+">", before)
}
