package cli

import (
	"fmt"

	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

type callOption = grpc.CallOption

// callError says what was being done when a call failed, and keeps its exit code.
func callError(what string, err error) error {
	if err == nil {
		return nil
	}
	return exit.Wrap(exit.Code(err), fmt.Errorf("%s: %s", what, exit.Line(err)))
}
