package serve

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"millrace/events/jet"
	"millrace/internal/cli/wording"
	"millrace/worker/filecache"
	"millrace/worker/process"
)

// filesFlags say where a worker keeps files, and how many.
type filesFlags struct {
	dir       string
	limit     sizeFlag
	artifacts sizeFlag
}

func (f *filesFlags) flags(fs *pflag.FlagSet) {
	fs.StringVar(&f.dir, "files-cache", "", "`folder` for the files of tasks, which workers of a machine may share (default files in $CACHE_DIRECTORY, or millrace/files in the user's cache folder)")
	f.limit, f.artifacts = filecache.DefaultLimit, filecache.DefaultArtifacts
	fs.Var(&f.limit, "files-limit", "how large that folder may grow, files in use excepted")
	fs.Var(&f.artifacts, "artifacts-limit", "how much a task may leave as artifacts; one that leaves more fails")
}

// sizeFlag is a flag that takes a number of bytes.
type sizeFlag int64

func (s *sizeFlag) String() string { return strings.ReplaceAll(wording.ByteCount(int64(*s)), " ", "") }
func (*sizeFlag) Type() string     { return "size" }

var sizeUnits = []struct {
	name  string
	bytes float64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40}, {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}, {"b", 1}, {"", 1},
}

func (s *sizeFlag) Set(text string) error {
	text = strings.ToLower(strings.TrimSpace(text))
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil || !(n*u.bytes >= 1 && n*u.bytes < 1<<62) {
			break
		}
		*s = sizeFlag(n * u.bytes)
		return nil
	}
	return fmt.Errorf("want a size such as 500MB or 20GiB")
}

// surroundings opens a worker's cache of files, on a connection of its own: contents are large, and
// heartbeats must not wait behind them.
func (p *parts) surroundings(c WorkerConfig) (process.Surroundings, error) {
	store, _, err := p.store("millrace files", jet.Await)
	if err != nil {
		return nil, err
	}
	cache, err := filecache.New(store, filecache.Config{Dir: c.own.cache, Limit: int64(c.files.limit), Log: p.log})
	if err != nil {
		return nil, err
	}
	return &filecache.Surroundings{Cache: cache, Store: store, Node: c.name, Limit: int64(c.files.artifacts), Now: p.clock.Now}, nil
}
