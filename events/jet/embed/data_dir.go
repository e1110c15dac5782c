package embed

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"

	"millrace/events/jet/request"
)

// ErrShared: other users of the machine may enter the data directory, and Millrace must not change
// its mode.
var ErrShared = errors.New("others may enter this data directory")

// lockFile is the file by which a process locks a data directory.
const lockFile = "lock"

// LockDir makes a data directory if it does not exist, closes it to other users, and locks it for
// this process until the lock is released or the process ends. The error wraps [ErrLocked] if
// another process has it. It wraps [ErrShared] if other users may enter it and it belongs to
// another user, or holds files that are not Millrace's, such as /tmp: then it stays as it is.
func LockDir(dir string) (*flock.Flock, error) {
	if err := privateDir(dir); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(dir, lockFile), flock.SetPermissions(0o600))
	if ok, err := lock.TryLock(); err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	} else if !ok {
		return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
	}
	return lock, nil
}

// storeDir is where the server keeps its streams.
func storeDir(dir string) string { return filepath.Join(dir, "nats") }

// othersMay are the permissions of users other than the owner.
const othersMay = 0o077

// privateDir makes a directory that only its owner may enter, or restricts an existing one.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if info.Mode().Perm()&othersMay == 0 {
		return nil
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: %s has the mode %v and belongs to uid %d", ErrShared, dir, info.Mode().Perm(), s.Uid)
	}
	ours, err := emptyOrOurs(dir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if !ours {
		return fmt.Errorf("%w: %s has the mode %v and holds something else", ErrShared, dir, info.Mode().Perm())
	}
	if err := os.Chmod(dir, info.Mode().Perm()&^othersMay); err != nil {
		return fmt.Errorf("data directory: shut it to others: %w", err)
	}
	return nil
}

// emptyOrOurs tells whether a directory is empty, or was a data directory before.
func emptyOrOurs(dir string) (bool, error) {
	if _, err := os.Lstat(filepath.Join(dir, lockFile)); err == nil {
		return true, nil
	}
	entries, err := os.ReadDir(dir)
	return len(entries) == 0, err
}

// ownUser is the user name when the server has made its own credential.
const ownUser = "millrace"

// passwordFile is the file in a data directory that holds the password of ownUser.
const passwordFile = "nats.password"

// ownAuth returns the credential of a data directory, and makes it at the first start. To change
// it, remove the file and start the server again.
func ownAuth(dir string) (Auth, error) {
	password, err := request.Secret(filepath.Join(dir, passwordFile))
	if err != nil {
		err = fmt.Errorf("password of the embedded server: %w", err)
	}
	return Auth{User: ownUser, Password: password}, err
}

// ownClients admits clients that know the credential made by the server. The server's own check
// compares hashed passwords, which takes 50 ms with a hash fit for passwords of people; this one
// cannot be guessed.
type ownClients Auth

// Check implements the server's authentication.
func (a ownClients) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	known := subtle.ConstantTimeCompare([]byte(o.Password), []byte(a.Password)) == 1
	return o.Username == a.User && known
}
