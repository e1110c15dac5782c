package pages

import (
	"bytes"
	"context"
	"errors"
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
	// Edits tells whether the caller may store another text of it. Stale tells that another version
	// was stored since the text was taken.
	Edits, Stale bool
}

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
	if d.Path == "" || err != nil {
		return d, nil
	}
	if d.Text, d.Kept, err = l.textOf(ctx, d.Digest, d.Path); err != nil {
		return nil, err
	}
	d.Edits = at == 0 && d.Kept == "" && l.Acts(string(rights.FilesRemove))
	if d.Edits && l.typed.Has("text") { // another caller was faster
		d.Text, d.Stale = typedText(l), true
	}
	return d, nil
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

// editFile stores the typed text as a new version.
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
	edit := client.FileEdit{Name: name, Seen: files.Digest(l.typed.Get("seen")), Path: l.Asked("path"), Text: typedText(l)}
	if !l.typed.Has("text") {
		return client.Wrongf("text is missing: want what the file is to have")
	}
	if strings.ContainsFunc(edit.Text, hidden) || !utf8.ValidString(edit.Text) {
		return client.Wrongf("the text has characters that a page cannot show: push the file")
	}
	err = l.site.server.Desk.EditFile(ctx, l.caller.Name, edit)
	l.site.settle(ctx)
	if errors.Is(err, definitions.ErrChanged) {
		return nil // the page tells of it
	}
	if err != nil {
		return err
	}
	return elsewhere(l.Back())
}
