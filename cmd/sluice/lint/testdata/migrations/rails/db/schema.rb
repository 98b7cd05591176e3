ActiveRecord::Schema[7.1].define(version: 1) {}
