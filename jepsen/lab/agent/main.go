// Command agent is the lab's own program. The lab builds it; nothing else runs it.
//
//	agent launch DIR PROGRAM ARG...   on the host: runs a guest so that it can write only below DIR
//	agent guard NUMBER                on the host: removes a lab when its standard input ends
//	agent serve ADDRESS               in a guest: serves the lab's requests
//	agent clock DURATION              in a guest: steps its clock; 0s: disciplines it, as a time daemon does
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) >= 2 {
		switch args[0] {
		case "launch":
			return launch(args[1], args[2:])
		case "guard":
			return guard(args[1])
		case "serve":
			return serve(args[1])
		case "clock":
			return setClock(args[1])
		}
	}
	return errors.New("usage: agent launch|guard|serve|clock ...")
}
