class CreateWidgets < ActiveRecord::Migration[7.1]
  def change
    create_table :widgets
  end
end
