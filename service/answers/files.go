package answers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events/jet/definitions"
	"millrace/internal/files"
	"millrace/projections/view"
	"millrace/service/client"
)

// Bounds, in bytes, of what the service reads of a version: the list of its files, and their
// contents.
const (
	largestManifest = 16 << 20
	largestVersion  = 1 << 30
)

// bundleList lists the bundles with their latest versions, or the versions of one, the latest
// first.
type bundleList struct {
	// Bundles are the versions, each under its name.
	Bundles []definitions.NamedVersion `json:"bundles"`
}

// bundlesRequest names a bundle, or none for all.
type bundlesRequest struct {
	// Name is a bundle's. Default: all bundles.
	Name string `json:"name,omitempty"`
}

func (r *bundlesRequest) check() error {
	if r.Name == "" {
		return nil
	}
	return files.ValidBundleName(r.Name)
}

func (s *Service) bundles(ctx context.Context, r bundlesRequest) (bundleList, error) {
	all, err := s.Client.Bundles(ctx, r.Name)
	return bundleList{append([]definitions.NamedVersion{}, all...)}, err
}

// versionRequest names a version: NAME, NAME@DIGEST or DIGEST.
type versionRequest struct {
	// Version is NAME, NAME@DIGEST or DIGEST.
	Version string `json:"version"`
	// After is the last path of the previous page.
	After string `json:"after,omitempty"`
	// Limit is how many files are returned: 1 to 1000, default 50.
	Limit int `json:"limit,omitempty"`
}

func (r *versionRequest) check() error {
	if r.Version == "" {
		return errors.New("version is missing: want NAME, NAME@DIGEST or DIGEST")
	}
	return validLimit(&r.Limit)
}

// bundleEntry is a file of a version.
type bundleEntry struct {
	// Path is relative to the bundle, with slashes. Size is in bytes; Exec tells whether the file may
	// be executed, Link is where a symbolic link points to, and Dir tells whether it is a directory.
	Path string `json:"path"`
	Size int64  `json:"size,omitempty"`
	Exec bool   `json:"exec,omitempty"`
	Link string `json:"link,omitempty"`
	Dir  bool   `json:"dir,omitempty"`
}

// bundleVersion is a version, and a page of its files.
type bundleVersion struct {
	// Digest names the version. Files counts its files, and Bytes their bytes.
	Digest files.Digest `json:"digest"`
	Files  int          `json:"files"`
	Bytes  int64        `json:"bytes"`
	// At is when it was pushed, and By who did that.
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
	// Entries are the files of this page, by path.
	Entries []bundleEntry `json:"entries"`
	// Next is the After of the next page; "" if this is the last one.
	Next string `json:"next,omitempty"`
}

// version reads a named version, and the list of its files.
func (s *Service) version(ctx context.Context, named string) (files.Version, *files.Manifest, error) {
	_, v, err := s.Client.FilesVersion(ctx, named)
	if err != nil {
		return v, nil, err
	}
	if v.Size > largestManifest {
		return v, nil, tooLarge{fmt.Errorf("the list of the files of %s has %d bytes, and the service reads %d: `millrace files show` reads more", v.Digest.Short(), v.Size, largestManifest)}
	}
	m, err := s.Client.FilesManifest(ctx, v)
	return v, m, err
}

func (s *Service) bundle(ctx context.Context, r versionRequest) (bundleVersion, error) {
	v, m, err := s.version(ctx, r.Version)
	if err != nil {
		return bundleVersion{}, err
	}
	is := bundleVersion{Digest: v.Digest, Files: v.Files, Bytes: v.Bytes, At: v.At, By: v.By, Entries: []bundleEntry{}}
	from, there := slices.BinarySearchFunc(m.Entries, r.After, func(e files.Entry, path string) int { return strings.Compare(e.Path, path) })
	if there {
		from++
	}
	for i := from; i < min(len(m.Entries), from+r.Limit); i++ {
		e := &m.Entries[i]
		is.Entries = append(is.Entries, bundleEntry{e.Path, e.Size, e.Exec, e.Link, e.Dir})
	}
	if end := from + r.Limit; end < len(m.Entries) {
		is.Next = m.Entries[end-1].Path
	}
	return is, nil
}

// versionsRequest names two versions.
type versionsRequest struct {
	// Version is the old version and With the new one: NAME, NAME@DIGEST or DIGEST.
	Version string `json:"version"`
	With    string `json:"with"`
	// Limit is how many differences are returned: 1 to 1000, default 50.
	Limit int `json:"limit,omitempty"`
}

func (r *versionsRequest) check() error {
	if r.Version == "" || r.With == "" {
		return errors.New("want version and with: NAME, NAME@DIGEST or DIGEST each")
	}
	return validLimit(&r.Limit)
}

// bundleDiff lists what differs in the second of two versions.
type bundleDiff struct {
	// Changes are the first changes, in the order of paths, and All is how many there are.
	Changes []files.Change `json:"changes"`
	All     int            `json:"all"`
}

func (s *Service) diffBundles(ctx context.Context, r versionsRequest) (bundleDiff, error) {
	_, was, err := s.version(ctx, r.Version)
	if err != nil {
		return bundleDiff{}, err
	}
	_, is, err := s.version(ctx, r.With)
	if err != nil {
		return bundleDiff{}, err
	}
	all := files.Diff(was, is)
	return bundleDiff{append([]files.Change{}, all[:min(len(all), r.Limit)]...), len(all)}, nil
}

// filesSwept is what a request of gc removed, or would remove.
type filesSwept struct {
	client.FilesSwept
	// Interrupted tells that time ran out. What was removed stays removed; ask again.
	Interrupted bool `json:"interrupted,omitempty"`
}

// sweepFiles removes what nothing needs, for bulkPatience at most.
func (s *Service) sweepFiles(ctx context.Context, r client.FilesSweep) (is filesSwept, err error) {
	sweeping, cancel := context.WithTimeout(ctx, bulkPatience)
	defer cancel()
	is.FilesSwept, err = s.Client.SweepFiles(sweeping, r, s.listed)
	if is.Versions == nil {
		is.Versions = []files.Digest{}
	}
	if err != nil && sweeping.Err() != nil && ctx.Err() == nil {
		is.Interrupted, err = true, nil
	}
	return is, err
}

// bundleCheck tells whether a version is complete in the store.
type bundleCheck struct {
	// Digest is the version's, and Read how many bytes were read.
	Digest files.Digest `json:"digest"`
	Read   int64        `json:"read"`
	// Problems are the files that are missing or damaged.
	Problems []client.FilesProblem `json:"problems"`
	// All is how many problems there are; Problems lists the first ones.
	All int `json:"all"`
}

func (s *Service) checkBundle(ctx context.Context, r versionRequest) (bundleCheck, error) {
	v, m, err := s.version(ctx, r.Version)
	if err != nil {
		return bundleCheck{}, err
	}
	if n := m.Size(); n > largestVersion {
		return bundleCheck{}, tooLarge{fmt.Errorf("%s has %d bytes, and the service reads %d: `millrace files verify` reads more", v.Digest.Short(), n, largestVersion)}
	}
	problems, read, err := s.Client.VerifyFiles(ctx, m)
	return bundleCheck{v.Digest, read, append([]client.FilesProblem{}, problems[:min(len(problems), view.MaxLimit)]...), len(problems)}, err
}
