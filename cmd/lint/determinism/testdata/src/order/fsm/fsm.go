package fsm

import "fmt"

type counts map[string]int

type record struct {
	name string
	by   *counts
}

func iterates(m map[string]int, c counts, s []int) {
	for range m { // want `range over a map`
	}
	for k := range c { // want `range over a map`
		_ = k
	}
	for range s {
	}
	_ = m["one"]
	println("x") // want `println`
}

func formats(m map[string]int, r record, n int) error {
	_ = fmt.Sprintf("%v", m)      // want `formatting of a map`
	_ = fmt.Sprint(counts(m))     // want `formatting of a map`
	_ = fmt.Sprint([]*record{&r}) // want `formatting of a map`
	_ = fmt.Sprintf("at %p", &n)  // want `formatting of an address`
	fmt.Println(n)                // want `fmt.Println`
	return fmt.Errorf("%s %d", r.name, n)
}
