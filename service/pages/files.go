package pages

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/internal/cli/wording"
	"millrace/internal/files"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
)

var (
	bundlesPage = page{name: "bundles", path: "/files", entry: "Files", verb: rights.FilesList, show: showBundles}
	bundlePage  = page{name: "bundle", path: "/files/{name}", verb: rights.FilesGet, do: editFile, show: showBundle}
)

// shownFiles is how many files of a version the page shows.
const shownFiles = 1000

func showBundles(ctx context.Context, l *look) (any, error) {
	d := &table[definitions.NamedVersion]{}
	return d.set(client.BundlesOf(ctx, l.View)), nil
}

type bundleData struct {
	// NamedVersion is the version shown, and Latest the one to which the name points.
	definitions.NamedVersion
	Latest   definitions.NamedVersion
	Versions []definitions.NamedVersion
	// Entries are the first files of the version.
	Entries table[files.Entry]
	// Path is the chosen file, "" for none, Text is its content, and Kept says why that is not shown.
	Path, Text, Kept string
	// Changes tells whether the caller may store another version, and Adds that a new file is asked for.
	Changes, Adds bool
	// Stale is the change that was not stored, for another version was since it was begun.
	Stale *client.FileEdit
}

// Edits tells whether there is a text that the caller may store.
func (d *bundleData) Edits() bool { return d.Changes && d.Kept == "" && (d.Path != "" || d.Adds) }

// Typed tells whether the change that was not stored has a text.
func (d *bundleData) Typed() bool { return d.Stale != nil && d.Stale.Content != nil }

// showBundle shows the files of a version: of the one that the name points to, or of an earlier one.
func showBundle(ctx context.Context, l *look) (any, error) {
	name, err := l.nameOf("bundle")
	if err != nil {
		return nil, err
	}
	facts, err := view.All(ctx, l.View, view.Definition(task.Named(task.DefBundle, name)))
	if err != nil {
		return nil, err
	}
	d := &bundleData{Path: l.Asked("path")}
	if d.Versions, err = definitions.VersionsIn(name, facts); err != nil {
		return nil, err
	}
	l.Title = "Files " + name
	d.Latest = d.Versions[0]
	wanted := l.Asked("version")
	at := slices.IndexFunc(d.Versions, func(v definitions.NamedVersion) bool { return wanted == "" || wanted == string(v.Digest) })
	if at < 0 {
		return nil, client.Wrongf("version is %.80q, and the name %s does not remember that one", wanted, name)
	}
	d.NamedVersion = d.Versions[at]
	var page struct {
		Entries []files.Entry `json:"entries"`
	}
	err = l.ask(ctx, rights.FilesGet, map[string]any{"version": d.Digest, "limit": shownFiles}, &page)
	d.Entries.set(page.Entries, err).More = max(d.Files-len(page.Entries), 0)
	d.Changes = err == nil && at == 0 && l.Acts(string(rights.FilesRemove))
	d.Stale, _ = l.Data.(*client.FileEdit) // of editFile
	d.Adds = d.Changes && d.Path == "" && l.query.Has("add")
	if d.Typed() { // what was typed is not lost, though the file may be gone
		d.Text = string(d.Stale.Content)
		return d, nil
	}
	if d.Path == "" || err != nil {
		return d, nil
	}
	d.Text, d.Kept, err = l.textOf(ctx, d.Digest, d.Path)
	if d.Stale != nil && err != nil && problemOf(err).Status == http.StatusNotFound {
		d.Path, err = "", nil
	}
	return d, err
}

// textOf returns the content of a file, or why a page cannot show it unchanged.
func (l *look) textOf(ctx context.Context, version files.Digest, path string) (text, kept string, err error) {
	is, err := l.site.server.Desk.Contents(ctx, l.caller.Name, string(version), path)
	if err != nil {
		return "", "", err
	}
	if is.Size > client.MaxEdited {
		return "", "It has " + wording.ByteCount(is.Size) + ", and a page shows " + wording.ByteCount(client.MaxEdited) + " at most.", nil
	}
	var b bytes.Buffer
	if err := is.Write(ctx, &b); err != nil {
		return "", "", err
	}
	switch {
	case !utf8.Valid(b.Bytes()) || bytes.IndexByte(b.Bytes(), 0) >= 0:
		return "", "It is not text.", nil
	case bytes.ContainsFunc(b.Bytes(), hidden):
		return "", "It has characters that a page cannot show, such as the line ends of Windows.", nil
	}
	return b.String(), "", nil
}

// typedText is the text as it was typed: browsers send line ends as in HTTP.
func typedText(l *look) string { return strings.ReplaceAll(l.typed.Get("text"), "\r\n", "\n") }

// editFile stores a version in which the chosen file has the typed text or another path, is removed, or
// comes anew.
func editFile(ctx context.Context, l *look) error {
	if !l.caller.Role.May(rights.FilesRemove) {
		return answers.ErrRole
	}
	name, err := l.nameOf("bundle")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	edit := client.FileEdit{Name: name, Seen: files.Digest(l.typed.Get("seen")), Edit: files.Edit{Path: l.Asked("path"), Exec: l.typed.Has("exec")}}
	switch edit.To = edit.Path; {
	case l.typed.Has("gone"):
		edit.To = ""
	case l.typed.Has("to"):
		if edit.To = strings.TrimSpace(l.typed.Get("to")); edit.To == "" {
			return client.Wrongf("the path is missing: want that of the file in the new version")
		}
	}
	text := typedText(l)
	switch has := l.typed.Has("text"); {
	case has && (strings.ContainsFunc(text, hidden) || !utf8.ValidString(text)):
		return client.Wrongf("the text has characters that a page cannot show: push the file")
	case has:
		edit.Content = []byte(text)
	case edit.To == edit.Path || edit.Path == "":
		return client.Wrongf("text is missing: want what the file is to have")
	}
	err = l.site.server.Desk.EditFile(ctx, l.caller.Name, edit)
	l.site.settle(ctx)
	if errors.Is(err, definitions.ErrChanged) {
		l.Data = &edit
		return nil // the page tells of it
	}
	if err != nil {
		return err
	}
	if edit.To == "" {
		return elsewhere(l.path)
	}
	return elsewhere(l.path + "?" + url.Values{"path": {edit.To}}.Encode())
}
