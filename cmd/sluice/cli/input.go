package cli

import (
	"fmt"
	"io"
	"os"
)

// ReadInput returns the text of a file, or that of stdin where the name is -.
func ReadInput(name string, stdin io.Reader) (string, error) {
	if name == "-" {
		text, err := io.ReadAll(stdin)
		return string(text), err
	}
	return ReadRegular(name)
}

// ReadRegular returns the text of a file. What is no regular file, a pipe or a device, may have no end,
// and is refused.
func ReadRegular(name string) (string, error) {
	switch info, err := os.Stat(name); {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() && !info.IsDir():
		return "", fmt.Errorf("%s: no regular file: give - and standard input", name)
	}
	text, err := os.ReadFile(name)
	return string(text), err
}
