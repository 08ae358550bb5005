package luks

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/executor/run"
)

// Failures that are handled here.
var (
	errOther    = errors.New("it was asked for what is not there")
	errNoKey    = errors.New("no slot is opened by this passphrase")
	errNoMemory = errors.New("there is not enough memory for the key's derivation")
	errDevice   = errors.New("the device cannot be used")
	errBusy     = errors.New("it exists already or is in use")
)

// exitCodes are those of cryptsetup(8), version 2.
var exitCodes = map[int]error{1: errOther, 2: errNoKey, 3: errNoMemory, 4: errDevice, 5: errBusy}

// notActive is the message for a mapping that does not exist, which has the code of any device
// that cannot be used.
const notActive = "is not active"

// classifyError wraps a command's failure in one of the errors above.
func classifyError(err error) error {
	var failed *run.Error
	if !errors.As(err, &failed) {
		return err
	}
	if known, ok := exitCodes[failed.Code]; ok {
		return fmt.Errorf("%w: %w", known, err)
	}
	return err
}

// isNotActive reports whether the mapping did not exist.
func isNotActive(err error) bool {
	var failed *run.Error
	return errors.As(err, &failed) && failed.Code == 4 && strings.Contains(failed.Output, notActive)
}
