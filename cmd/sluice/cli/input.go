package cli

import (
	"fmt"
	"io"
	"os"
)

// ReadInput returns the text of a file, or of stdin if the name is -.
func ReadInput(name string, stdin io.Reader) (string, error) {
	if name == "-" {
		text, err := io.ReadAll(stdin)
		return string(text), err
	}
	return ReadRegularFile(name)
}

// ReadRegularFile returns the text of a regular file. ReadRegularFile refuses pipes and devices, which may have no end.
func ReadRegularFile(name string) (string, error) {
	switch info, err := os.Stat(name); {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() && !info.IsDir():
		return "", fmt.Errorf("%s: no regular file: give - and standard input", name)
	}
	text, err := os.ReadFile(name)
	return string(text), err
}
