package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/gofrs/flock"

	"millrace/internal/files"
	"millrace/task/node"
)

var notInName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^A-Za-z0-9_-]+`) })

// HostNode returns the host's name in the form of a node's name.
func HostNode() node.ID {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return named(host)
}

// named returns a text in the form of a node's name.
func named(text string) node.ID {
	text = notInName().ReplaceAllString(text, "-")
	if len(text) > 64 {
		text = text[:64]
	}
	for len(text) > 0 && text[0] == '-' {
		text = text[1:]
	}
	if text == "" {
		text = "localhost"
	}
	return node.ID(text)
}

// maxLocalNodes bounds the search for a free name.
const maxLocalNodes = 64

// FreeNode returns a node name that no other worker of this user on this machine uses: base in the
// form of such a name, or base-2, base-3 and so on. The same number of workers gets the same names
// at each start, so nodes stay the same over restarts. Folder is where taken names are locked; ""
// for a folder in the user's cache. Release, or the end of the process, frees the name.
func FreeNode(folder, base string) (name node.ID, release func(), err error) {
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err == nil {
			folder, err = files.PrivateDir(cache, "millrace", "dev", "nodes")
		}
		if err != nil {
			return "", nil, fmt.Errorf("find a free node name: %w", err)
		}
	}
	base = string(named(base))
	for i := 1; i <= maxLocalNodes; i++ {
		name := base
		if i > 1 {
			name = fmt.Sprintf("%.60s-%d", base, i)
		}
		lock := flock.New(filepath.Join(folder, name+".lock"))
		ok, err := lock.TryLock()
		if err != nil {
			return "", nil, fmt.Errorf("find a free node name: %w", err)
		}
		if ok {
			return node.ID(name), func() { _ = lock.Unlock() }, nil // the process's end would release it, too
		}
	}
	return "", nil, ErrNoName
}

// ErrNoName: too many workers run on a machine for [FreeNode] to find a name for one more.
var ErrNoName = errors.New("64 workers of this name run on this machine already")
