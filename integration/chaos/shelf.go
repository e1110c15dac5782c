package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// shelf holds the versions of a folder that a run pushes while it is broken, and what every task
// that runs with one of them must find.
type shelf struct {
	dir  string
	sums []string // of each version, from the first
}

// Sizes of a version: most of the large file is new in each, so that there is something to fetch.
const (
	shelfLarge = 6 << 20
	shelfSmall = 12
)

// exitBytes is the exit code of a task that has found other files than those of its version.
const exitBytes = 86

// shelfVersions returns how many versions a run of this duration has.
func shelfVersions(duration time.Duration) int { return min(max(int(duration/(4*time.Second)), 3), 12) }

// newShelf writes all versions below a directory. The same seed gives the same ones.
func newShelf(dir string, seed uint64, n int) (*shelf, error) {
	s := &shelf{dir: dir}
	chance := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1})
	large := make([]byte, shelfLarge)
	_, _ = chance.Read(large) // never fails
	for v := range n {
		root := s.version(v + 1)
		if err := os.MkdirAll(filepath.Join(root, "data"), 0o750); err != nil {
			return nil, err
		}
		_, _ = chance.Read(large[:shelfLarge*2/3])
		content := map[string][]byte{"large": large, "run.sh": []byte("#!/bin/sh\necho " + strconv.Itoa(v) + "\n")}
		for i := range shelfSmall {
			content[filepath.Join("data", strconv.Itoa(i))] = large[i : i*100]
		}
		var lines []string
		for name, text := range content {
			sum := sha256.Sum256(text)
			lines = append(lines, hex.EncodeToString(sum[:])+"  ./"+name+"\n")
			if err := os.WriteFile(filepath.Join(root, name), text, 0o600); err != nil {
				return nil, err
			}
		}
		slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
		all := sha256.Sum256([]byte(strings.Join(lines, "")))
		s.sums = append(s.sums, hex.EncodeToString(all[:]))
		if err := errors.Join(os.Chmod(filepath.Join(root, "run.sh"), 0o700), os.Symlink("data/1", filepath.Join(root, "link"))); err != nil { // it is to be executable
			return nil, err
		}
	}
	return s, nil
}

func (s *shelf) version(v int) string { return filepath.Join(s.dir, "v"+strconv.Itoa(v)) }

// PushedFile is where the pusher of a folder writes its digest.
func PushedFile(folder string) string { return folder + ".digest" }

// OtherDigest ends the name of the file with the digest of a folder that had another one before.
const OtherDigest = ".other"

// check is a command that ends with 0 if it finds exactly the content of a version.
func (s *shelf) check(v int, sleep string) string {
	return `sum=$(find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-64)
if [ "$sum" != ` + s.sums[v-1] + ` ] || [ ! -x run.sh ] || [ "$(readlink link)" != data/1 ]; then find . | xargs ls -ld; exit ` + strconv.Itoa(exitBytes) + `; fi
sleep ` + sleep
}

// fill gives every other short task of a workload files: of the latest version at its time, or of
// an earlier one.
func (s *shelf) fill(orders []order, seed uint64, duration time.Duration) {
	chance := rand.New(rand.NewPCG(seed, 2))
	for i := range orders {
		o := &orders[i]
		if i%2 > 0 || o.submission.Labels["kind"] != "short" {
			continue
		}
		o.version = min(1+int(float64(len(s.sums))*float64(o.at)/float64(duration)), len(s.sums))
		if chance.IntN(3) == 0 {
			o.version = 1 + chance.IntN(o.version)
		}
		o.submission.Labels["kind"] = "files"
		o.submission.Spec.Run = &job.Run{Shell: s.check(o.version, o.submission.Spec.Run.Argv[1])}
		o.submission.Spec.Retry = job.Retry{Max: 20, Min: value.Duration(200 * time.Millisecond), MaxDelay: value.Duration(time.Second), NotOn: []string{"exit=" + strconv.Itoa(exitBytes)}}
	}
}

// pushed waits until a version exists, and names it.
func (s *shelf) pushed(ctx context.Context, v int) (*job.Files, error) {
	for {
		digest, err := os.ReadFile(PushedFile(s.version(v)))
		if err == nil {
			return &job.Files{Bundle: "app@" + string(digest)}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("version %d was not pushed: %w", v, ctx.Err())
		case <-time.After(tryAgain):
		}
	}
}

// FilesReport is what a run with files has shown.
type FilesReport struct {
	// Versions is how many were pushed, Tasks how many tasks have finished with one of them.
	Versions int `json:"versions"`
	Tasks    int `json:"tasks"`
	// Spoiled is how often something in the cache of a worker was changed.
	Spoiled int `json:"spoiled"`
}

// judge checks the log's tasks with files.
func (s *shelf) judge(records []events.Record) (r FilesReport, broken, odd []string) {
	for v := range s.sums {
		if _, err := os.Stat(PushedFile(s.version(v + 1))); err == nil {
			r.Versions++
		}
		if other, err := os.ReadFile(PushedFile(s.version(v+1)) + OtherDigest); err == nil {
			broken = append(broken, fmt.Sprintf("version %d was pushed again as %s", v+1, other))
		}
	}
	with := map[task.ID]bool{}
	var wrong []task.ID
	for i := range records {
		id := records[i].Fact.Task
		switch e := records[i].Fact.Event.(type) {
		case task.Submitted:
			with[id] = e.Labels["kind"] == "files"
		case task.AttemptFinished:
			if with[id] {
				r.Tasks++
			}
		case task.AttemptFailed:
			if !with[id] || e.Retry != nil {
				continue
			}
			if e.Exit != nil && *e.Exit == exitBytes {
				wrong = append(wrong, id)
				continue
			}
			odd = append(odd, fmt.Sprintf("task %s never had its files: %s", id, e.Message))
		}
	}
	if len(wrong) > 0 {
		broken = append(broken, fmt.Sprintf("%d tasks ran with other files than those of their version: %s", len(wrong), some(wrong)))
	}
	if r.Versions < len(s.sums) {
		broken = append(broken, fmt.Sprintf("%d of %d versions were not pushed", len(s.sums)-r.Versions, len(s.sums)))
	}
	return r, broken, odd
}
