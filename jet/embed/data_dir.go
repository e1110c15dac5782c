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

	"millrace/local"
)

// ErrShared: others of the machine may enter the data directory, and it is not for us to shut it.
var ErrShared = errors.New("others may enter this data directory")

// lockFile is the file by which a process takes a data directory for itself.
const lockFile = "lock"

// LockDir makes a data directory if it does not exist, shuts it to others, and takes it for this
// process until the lock is given back or the process ends. The error wraps [ErrLocked] if another
// process has it, and [ErrShared] if others may enter it and it is another user's, or holds what is
// not Millrace's, such as /tmp: then it stays as it is.
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

// othersMay are the permissions of those who do not own a directory.
const othersMay = 0o077

// privateDir makes a directory that its owner alone may enter, or makes it so.
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

// emptyOrOurs tells whether nothing lies in a directory, or it was a data directory before.
func emptyOrOurs(dir string) (bool, error) {
	if _, err := os.Lstat(filepath.Join(dir, lockFile)); err == nil {
		return true, nil
	}
	entries, err := os.ReadDir(dir)
	return len(entries) == 0, err
}

// ownUser is the user of a server that has made its own credential.
const ownUser = "millrace"

// passwordFile is the file in a data directory that holds the password of ownUser.
const passwordFile = "nats.password"

// ownAuth returns the credential of a data directory, and makes it at the first start. To change
// it, remove the file and start the server again.
func ownAuth(dir string) (Auth, error) {
	password, err := local.Secret(filepath.Join(dir, passwordFile))
	if err != nil {
		err = fmt.Errorf("password of the embedded server: %w", err)
	}
	return Auth{User: ownUser, Password: password}, err
}

// ownClients lets in who knows the credential that the server has made itself. The server's own check
// of a password asks for one that is hashed, which takes a person's password 50 ms to
// compare; this one nobody can guess.
type ownClients Auth

// Check implements the server's authentication.
func (a ownClients) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	known := subtle.ConstantTimeCompare([]byte(o.Password), []byte(a.Password)) == 1
	return o.Username == a.User && known
}
