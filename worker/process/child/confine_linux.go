package child

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// confine takes rights from this thread, and so from all processes that it will start; those cost
// nothing more. It returns what could not be done. Nothing of it can be taken back.
func (c *Confinement) confine(elevate bool) (gaps []string) {
	gap := func(what string, err error) {
		if err != nil {
			gaps = append(gaps, fmt.Sprintf("%s (%v)", what, err))
		}
	}
	if len(c.Hide) > 0 {
		gap("tasks can read the server's folder", hide(c.Hide))
	}
	if !elevate {
		_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) // an old kernel has none of it
	}
	if !c.Open {
		gap("tasks can look into other processes of their user", setApart())
	}
	if !c.AllCapabilities {
		gap("tasks keep the capabilities of their user", c.shed())
	}
	return gaps
}

// hide puts an empty folder over each of these, for this thread and what it starts.
func hide(folders []string) error {
	if os.Geteuid() != 0 {
		return errors.New("only a worker of root can hide it")
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	// What the machine mounts later arrives here, and nothing of this leaves.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	for _, folder := range folders {
		err := unix.Mount("none", folder, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=4k,mode=000")
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	return nil
}

// Landlock's interfaces: from the fourth on, a domain needs no rules for files.
const (
	landlockRefer  = 2
	landlockScopes = 6
)

// setApart puts this thread into a Landlock domain of its own. Whoever is in one can look into
// processes of the same domain and of those below it only, and nobody else is hindered. A domain
// has to forbid something, so it forbids what hinders least.
func setApart() error {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno != 0:
		return errno
	case abi < landlockRefer: // it would forbid to move files
		return errors.New("the kernel's Landlock is too old")
	}
	var rules unix.LandlockRulesetAttr
	size := unsafe.Sizeof(rules.Handled_access_fs)
	if abi >= landlockScopes {
		size = unsafe.Offsetof(rules.Scoped) + unsafe.Sizeof(rules.Scoped)
		rules.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	} else {
		rules.Handled_access_fs = unix.LANDLOCK_ACCESS_FS_REFER
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), size, 0) // a system call
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(fd))
	if abi < landlockScopes { // allowed everywhere
		root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(root)
		beneath := unix.LandlockPathBeneathAttr{Allowed_access: unix.LANDLOCK_ACCESS_FS_REFER, Parent_fd: int32(root)}                                             // a descriptor
		if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0); errno != 0 { // a system call
			return errno
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// shed makes sure that no program started from this thread has a capability, whatever its user and
// its file, except those of c. Those of the thread stay: it needs them to start processes of others.
func (c *Confinement) shed() error {
	const lastCapability = 63
	var keep [2]uint32
	for _, n := range c.Capabilities {
		keep[n/32] |= 1 << (n % 32)
	}
	for n := range lastCapability + 1 {
		if slices.Contains(c.Capabilities, n) {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
			break // the kernel has no more; or it has none to lose, but what a unit gave it: see below
		}
		if err != nil {
			return err
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var own [2]unix.CapUserData
	if err := unix.Capget(&header, &own[0]); err != nil {
		return err
	}
	for i := range own {
		own[i].Inheritable &= keep[i] // the ambient ones follow
	}
	return unix.Capset(&header, &own[0])
}
