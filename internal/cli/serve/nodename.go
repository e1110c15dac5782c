package serve

import (
	"fmt"
	"path/filepath"

	"github.com/gofrs/flock"

	"millrace/internal/cli/exit"
	"millrace/worker"
)

// maxLocalNodes bounds the search for a free name.
const maxLocalNodes = 64

// freeNodeName returns a node name that no other worker of this user on this machine uses: the
// host's, or host-2, host-3 and so on. The same number of workers gets the same names at each
// start, so nodes stay the same over restarts. release frees it.
func freeNodeName() (name string, release func(), err error) {
	folder, err := stateFolder("nodes")
	if err != nil {
		return "", nil, &exit.Fault{Code: exit.Usage, Err: fmt.Errorf("find a free node name: %w", err), Hint: exit.Hint("--name chooses one")}
	}
	host := string(worker.HostNode())
	for i := 1; i <= maxLocalNodes; i++ {
		name := host
		if i > 1 {
			name = fmt.Sprintf("%.60s-%d", host, i)
		}
		lock := flock.New(filepath.Join(folder, name+".lock"))
		ok, err := lock.TryLock()
		if err != nil {
			return "", nil, fmt.Errorf("find a free node name: %w; choose one with --name", err)
		}
		if ok {
			// The process's end would release it, too.
			return name, func() { _ = lock.Unlock() }, nil
		}
	}
	return "", nil, fmt.Errorf("%d workers run on this machine already: choose a name with --name", maxLocalNodes)
}
