package job

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"millrace/task/placement"
	"millrace/task/value"
)

// Runtimes lists the programs that run images, in the order in which a worker prefers them.
var Runtimes = value.WordsOf[Run]("runtime")

// Values of [Run.Pull]: when a worker fetches an image.
const (
	PullMissing = "missing" // if the node does not have it
	PullAlways  = "always"  // before each attempt
	PullNever   = "never"   // an attempt fails if the node does not have it
)

// Mount is a folder or file of the node that a container sees.
type Mount struct {
	From, To string // absolute paths: on the node, and inside
	ReadOnly bool
}

// ParseMount reads FROM:TO or FROM:TO:ro.
func ParseMount(text string) (m Mount, err error) {
	parts := strings.Split(text, ":")
	if m.ReadOnly = len(parts) == 3 && parts[2] == "ro"; m.ReadOnly {
		parts = parts[:2]
	}
	if len(parts) != 2 || slices.ContainsFunc(parts, func(p string) bool { return !MountablePath(p) || path.Clean(p) != p }) || parts[1] == "/" {
		return m, fmt.Errorf("run.mounts: %q is none: want FROM:TO or FROM:TO:ro, two absolute paths without commas and quotes, such as /srv/data:/data:ro", text)
	}
	m.From, m.To = parts[0], parts[1]
	return m, nil
}

// MountablePath tells whether a runtime can be told an absolute path.
func MountablePath(p string) bool {
	return path.IsAbs(p) && !strings.ContainsAny(p, ",:\"\\") && !strings.ContainsFunc(p, func(c rune) bool { return c < ' ' || c == 0x7f })
}

// Bounds of the names of an image and a network, in bytes. A regular expression that counts them makes
// each start of the program a millisecond longer.
const maxImage, maxNetwork = 512, 128

var (
	imageForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$`)
	networkForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
)

// validateImage refuses an image that cannot be run, and fields that mean nothing without one.
func (r *Run) validateImage() error {
	if r.Image == "" {
		if r.Pull != "" || len(r.Mounts) > 0 || r.Network != "" || r.Runtime != "" {
			return errors.New("run: pull, mounts, network and runtime are for an image: set run.image, or leave them out")
		}
		return nil
	}
	switch {
	case len(r.Image) > maxImage || !imageForm.MatchString(r.Image):
		return fmt.Errorf("run.image is %q, want a name such as docker.io/library/alpine:3.22", r.Image)
	case r.Pull != "" && !slices.Contains(value.WordsOf[Run]("pull"), r.Pull):
		return fmt.Errorf("run.pull is %q, want %s, %s or %s", r.Pull, PullMissing, PullAlways, PullNever)
	case r.Network != "" && (len(r.Network) > maxNetwork || !networkForm.MatchString(r.Network)):
		return fmt.Errorf("run.network is %q, want none, host, bridge or the name of a network on the node", r.Network)
	case r.Runtime != "" && !slices.Contains(Runtimes, r.Runtime):
		return fmt.Errorf("run.runtime is %q, want one of %s", r.Runtime, strings.Join(Runtimes, ", "))
	}
	for name := range r.Secrets {
		if Steers(name) {
			return fmt.Errorf("run.secrets: %s would reach the runtime of the image, too: give it another name", name)
		}
	}
	for _, text := range r.Mounts {
		if _, err := ParseMount(text); err != nil {
			return err
		}
	}
	return nil
}

// steering are the beginnings of the names of variables that a runtime, or the loader of programs,
// heeds itself.
var steering = []string{"LD_", "XDG_", "DOCKER_", "CONTAINER", "PODMAN_", "NERDCTL_", "BUILDAH_", "STORAGE_", "REGISTRY_", "CNI_", "NETAVARK_", "OTEL_", "SSL_", "GO", "DBUS_", "NOTIFY_", "LISTEN_", "_"}

// Steers tells whether a variable for a container must not be among those of its runtime, which would
// heed it.
func Steers(name string) bool {
	switch name {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ":
		return true
	}
	return strings.HasSuffix(name, "*") || strings.HasSuffix(strings.ToUpper(name), "_PROXY") || slices.ContainsFunc(steering, func(s string) bool { return strings.HasPrefix(name, s) })
}

// validateImage refuses what belongs to the node's own folders where an image runs.
func (s *Spec) validateImage() error {
	switch {
	case s.Run == nil || s.Run.Image == "":
		return nil
	case len(s.Setup) > 0:
		return errors.New("setup runs on the node, and not in run.image: let the image have what it would install")
	case s.Artifacts != nil && path.IsAbs(s.Run.Dir):
		return errors.New("artifacts are taken from the folder that an attempt gets, and run.dir is one of the image: leave it out")
	}
	return nil
}

// runtimes returns what a node needs beside room to run an image.
func (s *Spec) runtimes() placement.Selector {
	if s == nil || s.Run == nil || s.Run.Image == "" {
		return nil
	}
	return placement.Selector{{Key: s.Means(), Op: placement.OpExists}}
}
