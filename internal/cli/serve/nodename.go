package serve

import (
	"errors"
	"fmt"

	"millrace/internal/cli/term"
	"millrace/task/node"
	"millrace/worker"
)

// freeNodeName returns a node name that no other worker of this user on this machine uses; see
// [worker.FreeNode]. It is base, or that with a number. release frees it.
func freeNodeName(base node.ID) (name string, release func(), err error) {
	folder, err := stateFolder("nodes")
	if err != nil {
		return "", nil, &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("find a free node name: %w", err), Hint: term.Hint("--name chooses one")}
	}
	is, release, err := worker.FreeNode(folder, string(base))
	switch {
	case errors.Is(err, worker.ErrNoName):
		return "", nil, fmt.Errorf("%w: choose a name with --name", err)
	case err != nil:
		return "", nil, fmt.Errorf("%w; choose one with --name", err)
	}
	return string(is), release, nil
}
