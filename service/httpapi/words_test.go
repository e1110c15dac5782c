package httpapi

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/task/value"
)

var writeWords = flag.Bool("words", false, "write words.json from the docstrings")

// The document's descriptions are the docstrings of the types. Each field has one: its own, or that
// of a field above it in the same block which names it.
func TestWords(t *testing.T) {
	t.Parallel()
	sources := sources{
		packages: map[string]map[string]*ast.StructType{}, docs: map[string]map[string]string{},
		constants: map[string]map[string]ast.Expr{}, imports: map[string]map[string]string{},
	}
	all := map[string]map[string]string{}
	for _, is := range described() {
		said := sources.of(t, is)
		if said[""] == "" {
			t.Errorf("%s has no docstring", is)
		}
		for _, f := range fieldsOf(is) {
			if f.owner == is && said[f.name] == "" {
				t.Errorf("%s.%s has no docstring", is, f.name)
			}
		}
		all[wordsKey(is)] = said
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *writeWords {
		if err := os.WriteFile("words.json", text, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != string(wordsText) {
		t.Error("words.json is not what the docstrings say: go test ./httpapi -run TestWords -words")
	}
}

// described returns the structs in the document, and those embedded in them.
func described() (all []reflect.Type) {
	doc := document("0.0.0", operations())
	schemas := doc.Components.Schemas
	seen := map[reflect.Type]bool{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		if seen[t] || t.Kind() != reflect.Struct {
			return
		}
		seen[t] = true
		all = append(all, t)
		for _, f := range fieldsOf(t) {
			add(f.owner)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schemas.Map())) {
		if t := schemas.TypeFromRef("#/components/schemas/" + name); t != nil {
			add(t)
		}
	}
	for _, o := range operations() {
		add(o.endpoint.Request)
	}
	return all
}

// sources are the structs of packages, their docstrings, the constants, and the paths of imported
// packages: by package and name.
type sources struct {
	packages  map[string]map[string]*ast.StructType
	docs      map[string]map[string]string
	constants map[string]map[string]ast.Expr
	imports   map[string]map[string]string
}

// of returns the docstrings of a struct and its fields.
func (s *sources) of(t *testing.T, is reflect.Type) map[string]string {
	t.Helper()
	s.read(t, is.PkgPath())
	name, _, _ := strings.Cut(is.Name(), "[")
	node := s.packages[is.PkgPath()][name]
	if node == nil {
		t.Errorf("%s is no struct of the package's source", is)
		return nil
	}
	names := namesIn(node)
	plain := func(text string, names map[string]string) string {
		return plainWords(text, names, func(link string) string { return s.value(t, is.PkgPath(), link) })
	}
	said := map[string]string{"": plain(s.docs[is.PkgPath()][name], nil)}
	above := ""
	for _, f := range node.Fields.List {
		text := strings.TrimSpace(f.Doc.Text() + " " + f.Comment.Text())
		for _, ident := range f.Names {
			about := text
			if about == "" && regexp.MustCompile(`\b`+ident.Name+`\b`).MatchString(above) {
				about = above
			}
			if json := names[ident.Name]; json != "" && about != "" {
				said[json] = plain(about, names)
			}
		}
		if text != "" {
			above = text
		}
	}
	return said
}

// value returns the value of the constant that a link in a package's docstring names; "" if it is
// none.
func (s *sources) value(t *testing.T, path, link string) string {
	t.Helper()
	if pkg, name, ok := strings.Cut(link, "."); ok {
		if path, link = s.imports[path][pkg], name; path == "" {
			return ""
		}
	}
	s.read(t, path)
	is := s.constants[path][link]
	if is == nil {
		return ""
	}
	text := constantIn.ReplaceAllStringFunc(types.ExprString(is), func(name string) string {
		if unit := units[name]; unit > 0 {
			return fmt.Sprint(int64(unit))
		}
		return cmp.Or(s.value(t, path, name), name)
	})
	found, err := types.Eval(token.NewFileSet(), nil, token.NoPos, text)
	if err != nil || found.Value == nil {
		return ""
	}
	switch {
	case found.Value.Kind() == constant.String:
		return constant.StringVal(found.Value)
	case strings.Contains(types.ExprString(is), "time."):
		if n, exact := constant.Int64Val(found.Value); exact {
			return value.Duration(n).String()
		}
	}
	return found.Value.ExactString()
}

var (
	constantIn = regexp.MustCompile(`\b[A-Za-z]\w*(\.\w+)?`)
	units      = map[string]time.Duration{"time.Millisecond": time.Millisecond, "time.Second": time.Second, "time.Minute": time.Minute, "time.Hour": time.Hour}
)

// read parses a package of this module.
func (s *sources) read(t *testing.T, path string) {
	t.Helper()
	if s.packages[path] != nil {
		return
	}
	s.packages[path], s.docs[path] = map[string]*ast.StructType{}, map[string]string{}
	s.constants[path], s.imports[path] = map[string]ast.Expr{}, map[string]string{}
	files, err := filepath.Glob(filepath.Join("..", "..", strings.TrimPrefix(path, "millrace/"), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, is := range file.Imports {
			if at := strings.Trim(is.Path.Value, `"`); is.Name == nil && strings.HasPrefix(at, "millrace/") {
				s.imports[path][at[strings.LastIndexByte(at, '/')+1:]] = at
			}
		}
		for _, d := range file.Decls {
			of, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range of.Specs {
				if is, ok := spec.(*ast.ValueSpec); ok && of.Tok == token.CONST && len(is.Names) == len(is.Values) {
					for i, name := range is.Names {
						s.constants[path][name.Name] = is.Values[i]
					}
				}
				is, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				if node, ok := is.Type.(*ast.StructType); ok {
					s.packages[path][is.Name.Name] = node
					if s.docs[path][is.Name.Name] = is.Doc.Text(); is.Doc == nil {
						s.docs[path][is.Name.Name] = of.Doc.Text()
					}
				}
			}
		}
	}
}

// namesIn returns the names in JSON of a struct's fields, by their names in Go.
func namesIn(node *ast.StructType) map[string]string {
	names := map[string]string{}
	for _, f := range node.Fields.List {
		if f.Tag == nil {
			continue
		}
		json, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		for _, ident := range f.Names {
			if json != "-" {
				names[ident.Name] = json
			}
		}
	}
	return names
}

var (
	linkIn = regexp.MustCompile(`\[\*?([\w.]+)\]`)
	wordIn = regexp.MustCompile(`\b[A-Z]\w*\b`)
	// prose follows a word that begins a sentence and is no name of a field.
	prose = regexp.MustCompile(`^(:| (the|a|an|most|least|once|all|each|of|it|its|this|that|those|these|none|every|them|now|some|any|one|other|no|\d+)\b)`)
)

// plainWords turns a docstring into a description: in one line, with the names that fields have in
// JSON, with the values of constants, and without links.
func plainWords(text string, names map[string]string, value func(link string) string) string {
	text = strings.Join(strings.Fields(text), " ")
	text = regexp.MustCompile(`\bnil\b`).ReplaceAllString(text, "missing")
	text = linkIn.ReplaceAllStringFunc(text, func(link string) string {
		link = strings.Trim(link, "[]*")
		return cmp.Or(value(link), link[strings.LastIndexByte(link, '.')+1:])
	})
	var b strings.Builder
	last := 0
	for _, at := range wordIn.FindAllStringIndex(text, -1) {
		json, begins := names[text[at[0]:at[1]]], at[0] == 0 || strings.HasSuffix(text[:at[0]], ". ")
		if json == "" || begins && prose.MatchString(text[at[1]:]) {
			continue
		}
		b.WriteString(text[last:at[0]] + "`" + json + "`")
		last = at[1]
	}
	return b.String() + text[last:]
}
