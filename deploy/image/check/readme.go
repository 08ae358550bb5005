package check

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
)

var figure = regexp.MustCompile("`make image`[^.]*? (\\d+) MB")

// Readme is an error when the size that the README gives is not within a tenth of the image's, in megabytes.
func Readme(file string, megabytes int64) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	match := figure.FindSubmatch(content)
	if match == nil {
		return fmt.Errorf("%s does not say how many MB `make image` makes", file)
	}
	said, err := strconv.ParseInt(string(match[1]), 10, 64)
	if err != nil {
		return err
	}
	if difference := max(said-megabytes, megabytes-said); difference*10 > said {
		return fmt.Errorf("%s says that the image has %d MB, but it has %d MB", file, said, megabytes)
	}
	return nil
}
