package house

import (
	"errors"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"millrace/task/job"
)

// mostPackages is how many packages may name a rule: the field of a spec, its type, or what a
// submission has in its place.
const mostPackages = 5

// older are the rules that more packages name, with how many. None may be added, and no number may
// grow.
var older = map[string]int{"breaker": 7, "place": 12, "concurrency": 7, "rate": 12}

// A rule is one field, one function and one entry in the table. Few packages name it outside of
// tests: all others find it in the table.
func TestFewPackagesNameARule(t *testing.T) {
	pkgs, err := thisModule()
	if err != nil {
		t.Fatal(err)
	}
	s := source{root: root(t), files: token.NewFileSet(), pkgs: map[string]*types.Package{}, uses: map[string]map[*ast.Ident]types.Object{}}
	for _, p := range pkgs {
		if _, err := s.Import(module + p.path); err != nil {
			t.Fatal(err)
		}
	}
	in := s.pkgs[module+"task/job"].Scope()
	for _, r := range job.Rules {
		means := map[types.Object]bool{}
		for _, of := range []string{"Spec", "Overrides"} {
			fields := in.Lookup(of).Type().Underlying().(*types.Struct)
			for i := range fields.NumFields() {
				if name, _, _ := strings.Cut(reflect.StructTag(fields.Tag(i)).Get("json"), ","); name == r.Name {
					means[fields.Field(i)] = true
					named(fields.Field(i).Type(), means)
				}
			}
		}
		if len(means) == 0 {
			t.Errorf("%s: no field of a spec has this name", r.Name)
		}
		by := s.naming(means)
		most := max(mostPackages, older[r.Name])
		if len(by) > most {
			t.Errorf("%s: %d packages name it, want at most %d; let the others find it in job.Rules: %s", r.Name, len(by), most, strings.Join(by, ", "))
		}
		if len(by) < most && most > mostPackages {
			t.Errorf("%s: %d packages name it; write that here, for %d is more", r.Name, len(by), most)
		}
	}
}

// named adds the names of a type of this module, and of what it points to or lists.
func named(of types.Type, all map[types.Object]bool) {
	switch is := of.(type) {
	case *types.Alias:
		all[is.Obj()] = true
		named(is.Rhs(), all)
	case *types.Pointer:
		named(is.Elem(), all)
	case *types.Slice:
		named(is.Elem(), all)
	case *types.Named:
		if is.TypeArgs().Len() > 0 { // of any rule, for this one
			named(is.Underlying(), all)
			return
		}
		if pkg := is.Obj().Pkg(); pkg != nil && pkg.Path() != module+"task/value" && strings.HasPrefix(pkg.Path(), module) {
			all[is.Obj()] = true
			if _, list := is.Underlying().(*types.Slice); list {
				named(is.Underlying(), all)
			}
		}
	}
}

// source type-checks the packages of the module, without tests. Packages of others are empty to it,
// so what has their types stays unknown.
type source struct {
	root  string
	files *token.FileSet
	pkgs  map[string]*types.Package
	uses  map[string]map[*ast.Ident]types.Object // by the path in the module
}

// naming lists the packages that name one of the objects.
func (s *source) naming(means map[types.Object]bool) []string {
	by := map[string]bool{}
	for in, uses := range s.uses {
		for _, of := range uses {
			if means[of] {
				by[in] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(by))
}

// Import type-checks a package.
func (s *source) Import(of string) (*types.Package, error) {
	if is := s.pkgs[of]; is != nil {
		return is, nil
	}
	in, own := strings.CutPrefix(of, module)
	if !own {
		is := types.NewPackage(of, path.Base(of))
		is.MarkComplete()
		s.pkgs[of] = is
		return is, nil
	}
	dir := filepath.Join(s.root, filepath.FromSlash(in))
	listed, err := build.Default.ImportDir(dir, 0)
	if _, none := errors.AsType[*build.NoGoError](err); err != nil && !none {
		return nil, err
	}
	var files []*ast.File
	for _, name := range listed.GoFiles {
		f, err := parser.ParseFile(s.files, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	check := types.Config{Importer: s, Error: func(error) {}}
	is, _ := check.Check(of, s.files, files, info) // it lacks the packages of others
	s.pkgs[of], s.uses[in] = is, info.Uses
	return is, nil
}
