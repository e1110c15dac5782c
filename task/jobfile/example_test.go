package jobfile_test

import (
	"fmt"

	"millrace/task/jobfile"
)

func ExampleParse() {
	_, err := jobfile.Parse("hello.yaml", []byte(`
name: hello
run: [echo, hello]
timout: 30s
retry:
  max: x
`))
	fmt.Println(err)
	// Output:
	// hello.yaml:4:1: unknown field `timout`: did you mean `timeout`?
	// hello.yaml:6:3: retry.max: want a whole number, got text "x"
}

func ExampleMarshal() {
	jobs, err := jobfile.Parse("hello.yaml", []byte(`{"name": "hello", "run": "echo hello", "timeout": {"run": "90s"}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	yaml, err := jobfile.Marshal(jobs[0])
	fmt.Printf("%s%v", yaml, err)
	// Output:
	// name: hello
	// run:
	//   shell: echo hello
	// timeout:
	//   run: 1m30s
	// <nil>
}
