package cli

import (
	"fmt"

	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

type callOption = grpc.CallOption

// callError adds to a call's error what was attempted, and keeps its exit code.
func callError(what string, err error) error {
	if err == nil {
		return nil
	}
	return exit.Wrap(exit.Code(err), fmt.Errorf("%s: %s", what, exit.Line(err)))
}
