package main

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/deploy/image/deb"
)

// debianPackage makes the package and says where it is.
func debianPackage(o *options) error {
	file, err := deb.Write(o.out, deb.Source{Version: o.version, Time: o.time(), Binary: o.binary, Repository: o.repository})
	if err == nil {
		fmt.Println(file)
	}
	return err
}
