package process

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"millrace/task/job"
)

// account is a user of this machine that processes can run as.
type account struct {
	credential *syscall.Credential
	name, home string
	uid, gid   int
}

// accountOf returns the account that a task runs as; nil for the worker's own.
func accountOf(run *job.Run) (*account, error) {
	if run.User == "" {
		return nil, nil
	}
	return lookUser(run.User)
}

// variables are those that tell a process which user it runs as, if that is not the worker's.
func (a *account) variables() []string {
	if !a.other() {
		return nil
	}
	return []string{"HOME=" + a.home, "USER=" + a.name, "LOGNAME=" + a.name}
}

// lookUser finds a user by name or number. If there is none, or if this program may not start
// processes as that user, the error says what to do.
func lookUser(name string) (*account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		if _, number := strconv.ParseUint(name, 10, 32); number == nil {
			u, err = user.LookupId(name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("run.user: %w: create the user on this node, or correct the name", err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("run.user: user %s has no numbers on this node: %w", name, err)
	}
	a := &account{name: u.Username, home: u.HomeDir, uid: int(uid), gid: int(gid)}
	if own := os.Geteuid(); own != 0 {
		if own == a.uid {
			return a, nil // it is that user anyway
		}
		return nil, fmt.Errorf("run.user: this worker does not run as root, so it cannot run anything as %s: start it as root, or as that user", u.Username)
	}
	a.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("run.user: the groups of %s: %w", u.Username, err)
	}
	for _, g := range groups {
		if n, err := strconv.ParseUint(g, 10, 32); err == nil {
			a.credential.Groups = append(a.credential.Groups, uint32(n))
		}
	}
	return a, nil
}
